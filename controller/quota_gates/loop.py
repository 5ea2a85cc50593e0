"""The leader's loop that lets waiting pods go: it removes their gates in order, one after the other.

A pod counts in its quotas before the request to remove its gate is sent. It waits again only if the gate is
certainly still there. A request without an answer is repeated until the outcome is known. Meanwhile others
go: the API server may fail for this pod alone, such as by another webhook of its namespace.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable
from http import HTTPStatus

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.policies.watched_policies import WatchedPolicies
from controller.quota_gates.gate_removal import GateRemoval, Outcome, is_rejection
from controller.watch.ledger_store import LedgerStore
from ledger.reservations import LIFETIME_SECONDS
from modes.facts import PodFact, PodKey, QuotaWait
from service.log import get_logger
from service.turns import Pauses

STEP_SECONDS = 0.25
SETTLE_SECONDS = LIFETIME_SECONDS
"""Until then, a new leader lets no pod go: a pod that its predecessor admitted or let go may not have
appeared yet, and a request that it sent may still be in progress."""
MAX_AT_ONCE = 100
"""Pods that go in one step."""
REFUSED_SECONDS = 30.0
"""Until a request that the API server rejected is repeated."""
RETRY_SECONDS = 1.0
"""Until a request without an answer is repeated; twice as long after each further one."""
MOST_RETRY_SECONDS = 120.0
MAX_STUCK = 8
"""Pods of one namespace whose requests fail at the same time: then no other one of it is tried."""
KEEP_SECONDS = 600.0
"""How long room is kept in a shared quota for pods of a namespace that lack room in another one, such as the
namespace's own. Then others may take it, for longer each time until a pod of the namespace goes."""
_UNKNOWN = (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS)


class QuotaGateLoop:
    """Removes the gates of waiting pods while this replica leads.

    `reason_not_to_lead` returns why the ledger may be outdated; no pod goes then.
    """

    def __init__(  # noqa: PLR0913 - the last is replaced in tests only
        self,
        removal: GateRemoval,
        state: LedgerStore,
        leadership: Leadership,
        policies: WatchedPolicies,
        *,
        reason_not_to_lead: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._removal = removal
        self._state = state
        self._line = state.ledger.line
        self._line.state = "settling"
        self._leadership = leadership
        self._policies = policies
        self._reason_not_to_lead = reason_not_to_lead
        self._clock = clock
        self._not_before = 0.0
        self._unknown: dict[PodKey, QuotaWait] = {}
        """Pods for which a request had no answer."""
        self._retries = Pauses[PodKey](RETRY_SECONDS, MOST_RETRY_SECONDS)
        self._held: dict[PodKey, float] = {}
        """Pods whose request was rejected, and when it is their turn again."""
        self._kept_since: dict[str, float] = {}
        """Since when room is kept for pods of a namespace."""
        self._keeping = Pauses[str](KEEP_SECONDS)
        self._log = get_logger("quota gates")

    async def run(self) -> None:
        """Let pods go while this replica leads."""
        self._not_before = self._clock() + SETTLE_SECONDS
        for key in self._unknown:
            # Of an earlier term: other leaders may have let other pods go since. The watch knows.
            self._state.put_back(key)
        self._unknown.clear()
        self._retries.keep(())
        self._resume(math.inf)
        try:
            await while_leading(self._leadership, self.step, STEP_SECONDS)
        finally:
            self._line.state = "settling"

    async def step(self) -> None:
        """Let all pods go whose turn it is."""
        if self._clock() < self._not_before or self._reason_not_to_lead() is not None:
            return
        self._resume(self._clock())
        # Requests without an answer are repeated, until one has none again.
        for key, wait in list(self._unknown.items()):
            if not self._retries.pauses(key, self._clock()) and await self._remove(key, wait) is None:
                break
        if self._clock() < self._not_before or not await self._let_due_go():
            return
        self._line.state = "open"

    def _stuck(self) -> frozenset[str]:
        """Return the namespaces in which too many requests fail."""
        counted = Counter(namespace for namespace, _ in (*self._unknown, *self._held))
        return frozenset(namespace for namespace, pods in counted.items() if pods >= MAX_STUCK)

    async def _let_due_go(self) -> bool:
        """Let pods go whose turn it is; return False if more may be due."""
        without_room, left = self._without_room(), MAX_AT_ONCE
        rules = self._policies.digest, self._stuck(), without_room
        if not self._line.has_changed(rules):
            return True
        for pod in self._line.due(
            self._policies.quotas_of, rules, lambda name: name in self._stuck(), without_room
        ):
            if pod is None:
                await self._state.yielding.step()
                continue
            left -= 1
            if left < 0 or not await self._let_go(pod):
                return False
        return True

    def _without_room(self) -> frozenset[Hashable]:
        """Return the namespaces for whose pods room was kept too long."""
        now = self._clock()
        paused = self._keeping.paused(now)
        since = {name: self._kept_since.get(name, now) for name in self._line.keepers if name not in paused}
        self._kept_since = since
        for name in [name for name, at in since.items() if now - at >= KEEP_SECONDS]:
            self._keeping.refused(name, now)
        return self._keeping.paused(now)

    async def _let_go(self, pod: PodFact) -> bool:
        """Remove a pod's gate; return False if no other one may go in this step."""
        wait = pod.quota_wait
        if wait is None or not self._leadership.leads or self._reason_not_to_lead() is not None:
            return False
        self._state.lift(pod.key)
        outcome = await self._remove(pod.key, wait)
        if outcome == "removed":
            self._keeping.accepted(pod.namespace)
            self._removal.report(pod, wait)
        return outcome is not None

    async def _remove(self, key: PodKey, wait: QuotaWait) -> Outcome | None:
        """Remove the gate of a pod that counts already; return None if no other request is to be sent now."""
        if key not in self._state.lifted:
            self._forget(key)
            return "gone"
        self._unknown[key] = wait
        try:
            outcome = await self._removal.remove(key, wait)
        except _UNKNOWN as error:
            return self._failed(key, error)
        self._forget(key)
        if outcome == "still there":
            self._hold(key)
        else:
            for each in self._unknown:
                self._retries.accepted(each)
        return outcome

    def _failed(self, key: PodKey, error: Exception) -> Outcome | None:
        """Log why a gate was not removed, and let the pod wait again if it certainly still has the gate."""
        namespace, name = key
        self._log.warning(
            "a scheduling gate is not removed",
            namespace=namespace,
            pod=name,
            error=f"{type(error).__name__}: {error}",
        )
        if not is_rejection(error):
            self._retries.refused(key, self._clock())
            return None
        self._forget(key)
        if isinstance(error, ApiError) and error.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._not_before = self._clock() + REFUSED_SECONDS
            self._state.put_back(key)
            return None
        self._hold(key)
        return "still there"

    def _forget(self, key: PodKey) -> None:
        self._unknown.pop(key, None)
        self._retries.accepted(key)

    def _hold(self, key: PodKey) -> None:
        """Let a pod wait again; for some time, others go before it."""
        self._state.put_back(key, is_held=True)
        self._held[key] = self._clock() + REFUSED_SECONDS

    def _resume(self, now: float) -> None:
        """Give held pods their place in the line again, once their time is over."""
        for key in [key for key, until in self._held.items() if until <= now]:
            del self._held[key]
            self._line.resume(key)
