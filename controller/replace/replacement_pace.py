"""When a pod that waits on its index may be deleted, so that its controller creates another: the pace.

Deterministic and free of side effects: who waits, what became of a pod, and the time are passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.pods.pod_findings import drift
from controller.watch.resources import Owner, SeenPod
from ledger.facts import PodKey
from modes.mig_instances import is_instance

SECONDS_BETWEEN = 2.0
"""Between two replacements: the pod that was created for the first has taken its place by then."""
SECONDS_BETWEEN_IN_NAMESPACE = 10.0
LOOK_AGAIN_SECONDS = 10.0
"""Until room is sought again for a pod that had none."""
MAX_PAUSE_SECONDS = 3600.0
"""Between two replacements of one owner's pods, however often they did not help."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits on its index, and that its policy allows to replace."""

    key: PodKey
    uid: str
    owner: str
    """UID of the controller that would create another."""
    after: float
    """Seconds of waiting, by its policy."""

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.key[0]


@dataclass(slots=True)
class _Last:
    """The last replacement of an owner's pod."""

    at: float
    failures: int
    """Replacements before this one, in a row, after which a new pod of the owner waited again."""


def waits_replaceably(pod: SeenPod) -> Owner | None:
    """Return the controller that would create a waiting pod's replacement.

    None where the pod does not wait on an index, was not injected, or nobody known would replace it.
    """
    fact, injected = pod.fact, pod.injected
    if fact.node is not None or fact.is_over or not fact.gpus or fact.pooled or is_instance(fact.gpus[-1][0]):
        return None
    if injected is None or not injected.lacks_slices or drift(fact, injected) is not None:
        return None
    owner = injected.owner
    return owner if owner is not None and owner.creates_another else None


class ReplacementPlan:
    """Paces replacements: in all, for each namespace, and for each owner by whether the last one helped."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._looked: dict[str, float] = {}
        self._looked_in: dict[str, float] = {}
        self._youngest: Mapping[str, float] = {}
        self._owners: dict[str, _Last] = {}
        self._namespaces: dict[str, float] = {}
        self._not_before = 0.0

    def due(self, waiting: Sequence[WaitingPod], now: float) -> list[WaitingPod]:
        """Take in who waits now; return those that may be replaced, those looked at longest ago first.

        Namespaces take turns, so that nobody is kept waiting by how many pods another has.
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
        """Return the seconds for which a pod has been seen to wait."""
        return now - self._since.get(pod.uid, now)

    def looked_at(self, pod: WaitingPod, now: float) -> None:
        """Note that a pod was looked at and may not fit: others come first, and it again after a while."""
        self._looked[pod.uid] = self._looked_in[pod.namespace] = now

    def replaced(self, pod: WaitingPod, now: float) -> None:
        """Note a replacement."""
        self._owners[pod.owner] = _Last(now, self._failures(pod.owner))
        self._namespaces[pod.namespace] = now + SECONDS_BETWEEN_IN_NAMESPACE
        self.hold(now + SECONDS_BETWEEN)

    def hold(self, until: float) -> None:
        """Replace nothing until then."""
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
        """Sorts the pods that are due."""
        namespace_at = self._looked_in.get(pod.namespace, float("-inf"))
        return namespace_at, self._last_look(pod), self._since[pod.uid], pod.key

    def _failures(self, owner: str) -> int:
        """Replacements in a row that did not help: 0 once none of the owner's newer pods waits."""
        last = self._owners.get(owner)
        if last is None or self._youngest.get(owner, 0.0) <= last.at:
            return 0
        return last.failures + 1

    def _forget(self, now: float) -> None:
        """Keep only what can still delay someone; an owner may begin to wait again long after."""
        self._namespaces = {name: until for name, until in self._namespaces.items() if until > now}
        self._owners = {
            owner: last
            for owner, last in self._owners.items()
            if owner in self._youngest or now < last.at + MAX_PAUSE_SECONDS
        }
