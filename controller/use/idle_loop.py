"""The leader's loop that reports idle shares, warns their pods, and evicts them if their policy says so.

A warning counts only once it is stored, with the time of the report on which it was given. This way the next
leader knows it, and no pod is evicted without one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.policies.idle_shares import IdlePod, IdleShares
from controller.publish.metrics import ControllerMetrics
from controller.use.eviction import IdleEviction
from controller.use.store import WARNINGS, UseStore
from controller.watch.ledger_store import LedgerStore
from service.log import get_logger
from service.turns import Pauses, in_turn

STEP_SECONDS = 10.0
MAX_AT_ONCE = 16
"""Pods that are warned in one step."""
MAX_EVICTED = 4
"""Pods whose eviction is requested in one step, 24 a minute: an admin who sees too many has time to act."""
MAX_WARNED = 4096
"""Pods that are warned at the same time: 260 KB of the ConfigMap."""
HELD_SECONDS = 60.0
"""Until the eviction of a pod is requested again: a PodDisruptionBudget forbade it, or it had no answer.
Each time that it fails, twice as long."""
_UNKNOWN = (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS)


class Warned(msgspec.Struct, frozen=True, array_like=True):
    """A warning. Both are seconds since 1970 by the clock of the pod's node."""

    idle_since: int
    measured: int
    """The time of the report on which it was given."""


def next_step(pod: IdlePod, warned: Warned | None) -> Literal["wait", "warn", "evict"]:
    """Return what an idle pod is due for at a new report; `warned` is None if it never was."""
    if not pod.rule.evicts:
        return "wait"
    # Any other time is another one that it is idle, also if the node's clock was set since.
    if warned is None or warned.idle_since != pod.idle_since:
        return "warn"
    return "evict" if pod.measured - warned.measured >= pod.rule.grace_seconds else "wait"


class IdleLoop:
    """Looks at all reports every ten seconds, and acts on those that have just arrived.

    A report has arrived if it replaces another one that was seen. So neither a node's clock matters, nor what
    an agent wrote before it fell silent.
    """

    def __init__(  # noqa: PLR0913 - the parts of a controller that it joins
        self,
        eviction: IdleEviction,
        store: UseStore | None,
        state: LedgerStore,
        idle: IdleShares,
        leadership: Leadership,
        *,
        metrics: ControllerMetrics,
        reason_not_to_lead: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a store, nothing outlives this process, and no pod is warned or evicted.

        `reason_not_to_lead` returns why the watched state may be outdated; no pod is warned or evicted then.
        """
        self._eviction = eviction
        self._store = store
        self._state = state
        self._idle = idle
        self._leadership = leadership
        self._metrics = metrics
        self._reason_not_to_lead = reason_not_to_lead
        self._clock = clock
        self._measured: dict[str, str] = {}
        """When each node's agent measured, as last seen."""
        self._warned: dict[str, Warned] | None = None
        """Each warning by UID, as stored; None until that is read."""
        self._pauses = Pauses[str](HELD_SECONDS)
        self._log = get_logger("idle shares")

    async def run(self) -> None:
        """Look at reports while this replica leads."""
        self._warned, self._measured = None, {}
        try:
            await while_leading(self._leadership, self.step, STEP_SECONDS)
        finally:
            self._metrics.idle_slices.clear()

    async def step(self) -> None:
        """Look at all reports once; tell and evict a few pods."""
        idle, fresh = await self._look()
        if self._reason_not_to_lead() is not None:
            return
        try:
            for pod in fresh:
                if not pod.rule.evicts:
                    self._eviction.tell(pod)
            if self._store is not None:
                await self._reclaim(self._store, [pod for pod in idle if pod.rule.evicts], fresh)
        except _UNKNOWN as error:
            self._log.warning("idle pods wait", error=f"{type(error).__name__}: {error}")

    async def _look(self) -> tuple[list[IdlePod], list[IdlePod]]:
        """Return all idle pods, and those of nodes whose agent has just reported."""
        idle, fresh, before = list[IdlePod](), list[IdlePod](), self._measured
        self._measured = {}
        async for names in self._state.yielding.batches(list(self._state.agents)):
            for name in names:
                report = self._state.agents.get(name)
                if report is None or report.uses is None:
                    continue
                found = self._idle.on_node(name)
                idle += found
                self._measured[name] = report.uses.measured
                if name in before and before[name] != report.uses.measured:
                    fresh += found
        slices = Counter[str]()
        for pod in idle:
            slices[pod.key[0]] += pod.slices
        self._metrics.set_idle(slices)
        return idle, fresh

    async def _reclaim(self, store: UseStore, idle: Sequence[IdlePod], fresh: Iterable[IdlePod]) -> None:
        """Warn idle pods, and evict those that were warned long enough ago."""
        if not idle and not self._warned:
            return
        if self._warned is None:
            self._warned = await self._stored(store)
        uids = {pod.uid for pod in idle}
        known = {uid: at for uid, at in self._warned.items() if uid in uids}
        self._pauses.keep(uids)
        steps = [(pod, next_step(pod, known.get(pod.uid))) for pod in fresh]
        room = MAX_WARNED - len(known)
        unwarned = [pod for pod, step in steps if step == "warn"]
        for pod in self._in_turn(unwarned)[: min(MAX_AT_ONCE, room)]:
            if await self._is_warned(pod):
                known[pod.uid] = Warned(pod.idle_since, pod.measured)
        if known != self._warned:
            await store.write(WARNINGS, msgspec.json.encode(known).decode())
            self._warned = known
        warned = [pod for pod, step in steps if step == "evict"]
        for pod in self._in_turn(warned)[:MAX_EVICTED]:
            await self._evict(pod)

    def _in_turn(self, pods: Iterable[IdlePod]) -> list[IdlePod]:
        """Return the pods that do not pause, those refused longest ago first, and namespaces in turn."""
        due = [pod for pod in pods if not self._pauses.pauses(pod.uid, self._clock())]
        due.sort(key=lambda pod: self._pauses.until(pod.uid))
        return in_turn(due, lambda pod: pod.key[0], {})

    async def _stored(self, store: UseStore) -> dict[str, Warned]:
        text = await store.read(WARNINGS)
        try:
            return msgspec.json.decode(text, type=dict[str, Warned]) if text else {}
        except msgspec.MsgspecError as error:
            self._log.error("the stored warnings cannot be read: pods are warned again", error=str(error))
            return {}

    async def _is_warned(self, pod: IdlePod) -> bool:
        """Warn a pod; the failure of one, such as in a namespace that ends, delays no other."""
        try:
            await self._eviction.warn(pod)
        except _UNKNOWN as error:
            self._pauses.refused(pod.uid, self._clock())
            self._log_failed(pod, error)
            return False
        return True

    def _log_failed(self, pod: IdlePod, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._log.warning("the eviction of an idle pod waits", pod="/".join(pod.key), error=text)

    async def _evict(self, pod: IdlePod) -> None:
        if not self._leadership.leads or self._reason_not_to_lead() is not None:
            return
        # Also if it has no answer: the pod is read again before the next request.
        self._pauses.refused(pod.uid, self._clock())
        try:
            await self._eviction.evict(pod)
        except _UNKNOWN as error:
            self._log_failed(pod, error)
