"""The pace of replacements: when a pod that waits for its index may be deleted, so that another is created.

Deterministic and free of side effects: waiting pods, results and time are passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.pods.pod_findings import drift
from controller.watch.resources import Owner, SeenPod
from modes.facts import PodKey

SECONDS_BETWEEN = 2.0
"""Between two replacements: the pod that was created for the first one then has its place."""
SECONDS_BETWEEN_IN_NAMESPACE = 10.0
LOOK_AGAIN_SECONDS = 10.0
"""Until room is searched again for a pod that had none."""
MAX_PAUSE_SECONDS = 3600.0
"""Maximum pause between two replacements of one owner's pods, however often they failed."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits for its index, and may be replaced by its policy."""

    key: PodKey
    uid: str
    owner: str
    """UID of the controller that would create another."""
    after: float
    """Seconds that it must have waited, by its policy."""

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.key[0]


@dataclass(slots=True)
class _Last:
    """The last replacement of an owner's pod."""

    at: float
    failures: int
    """Earlier replacements in a row after which a new pod of the owner waited again."""


def waits_replaceably(pod: SeenPod) -> Owner | None:
    """Return the controller that would replace a waiting pod.

    None if the pod does not wait for an index, was not injected, or has no known controller.
    """
    fact, injected = pod.fact, pod.injected
    if fact.node is not None or fact.is_over or not fact.takes or len(fact.gpus) < len(fact.takes):
        return None
    if injected is None or not injected.lacks_slices or drift(fact, injected) is not None:
        return None
    owner = injected.owner
    return owner if owner is not None and owner.creates_another else None


class ReplacementPlan:
    """Paces replacements: in total, by namespace, and by owner, depending on whether the last one helped."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._looked: dict[str, float] = {}
        self._looked_in: dict[str, float] = {}
        self._youngest: Mapping[str, float] = {}
        self._owners: dict[str, _Last] = {}
        self._namespaces: dict[str, float] = {}
        self._not_before = 0.0

    def due(self, waiting: Sequence[WaitingPod], now: float) -> list[WaitingPod]:
        """Record the waiting pods; return those that may be replaced, the one checked longest ago first.

        Namespaces alternate, so that one namespace's many pods do not delay others.
        """
        self._since = {pod.uid: self._since.get(pod.uid, now) for pod in waiting}
        self._looked = {uid: at for uid, at in self._looked.items() if uid in self._since}
        namespaces = {pod.namespace for pod in waiting}
        self._looked_in = {name: at for name, at in self._looked_in.items() if name in namespaces}
        youngest: dict[str, float] = {}
        for pod in waiting:
            youngest[pod.owner] = max(youngest.get(pod.owner, 0.0), self._since[pod.uid])
        self._youngest = youngest
        self._forget(now)
        if now < self._not_before:
            return []
        due = [pod for pod in waiting if self._is_due(pod, now)]
        return sorted(due, key=self._turn)

    def waited(self, pod: WaitingPod, now: float) -> float:
        """Return for how many seconds a pod has been seen waiting."""
        return now - self._since.get(pod.uid, now)

    def looked_at(self, pod: WaitingPod, now: float) -> None:
        """Record that a pod was checked and may not fit: others come first, and it again after a while."""
        self._looked[pod.uid] = self._looked_in[pod.namespace] = now

    def replaced(self, pod: WaitingPod, now: float) -> None:
        """Record that a pod was replaced."""
        self._owners[pod.owner] = _Last(now, self._failures(pod.owner))
        self._namespaces[pod.namespace] = now + SECONDS_BETWEEN_IN_NAMESPACE
        self.hold(now + SECONDS_BETWEEN)

    def hold(self, until: float) -> None:
        """Pause all replacements until this time."""
        self._not_before = max(self._not_before, until)

    def _is_due(self, pod: WaitingPod, now: float) -> bool:
        if now - self._since[pod.uid] < pod.after or now - self._last_look(pod) < LOOK_AGAIN_SECONDS:
            return False
        if now < self._namespaces.get(pod.namespace, 0.0):
            return False
        last = self._owners.get(pod.owner)
        if last is None:
            return True
        pause = pod.after * 2.0 ** min(self._failures(pod.owner), 32)
        return now >= last.at + min(pause, MAX_PAUSE_SECONDS)

    def _last_look(self, pod: WaitingPod) -> float:
        return self._looked.get(pod.uid, float("-inf"))

    def _turn(self, pod: WaitingPod) -> tuple[float, float, float, PodKey]:
        """Sort key of due pods."""
        namespace_at = self._looked_in.get(pod.namespace, float("-inf"))
        return namespace_at, self._last_look(pod), self._since[pod.uid], pod.key

    def _failures(self, owner: str) -> int:
        """Failed replacements in a row: 0 once none of the owner's newer pods waits."""
        last = self._owners.get(owner)
        if last is None or self._youngest.get(owner, 0.0) <= last.at:
            return 0
        return last.failures + 1

    def _forget(self, now: float) -> None:
        """Keep only what can still delay a pod; an owner's pods may wait again long after."""
        self._namespaces = {name: until for name, until in self._namespaces.items() if until > now}
        self._owners = {
            owner: last
            for owner, last in self._owners.items()
            if owner in self._youngest or now < last.at + MAX_PAUSE_SECONDS
        }
