"""The leader's loop that keeps the history of what pods used of their shares."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.use.store import UseStore
from controller.watch.ledger_store import LedgerStore
from kube.names import USE_HISTORY_KEY
from ledger.use import shares_in_use
from ledger.use_history import OwnerHistory
from service.log import get_logger

STEP_SECONDS = 30.0
SAVE_SECONDS = 120.0
_UNKNOWN = (ApiError, msgspec.MsgspecError, *TRANSPORT_ERRORS)


class UseHistoryLoop:
    """Looks at all shares twice a minute. Each term begins with what the last leader has saved."""

    def __init__(
        self,
        store: UseStore,
        state: LedgerStore,
        leadership: Leadership,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._state = state
        self._leadership = leadership
        self._clock = clock
        self._now = now
        self._history: OwnerHistory | None = None
        self._looked = 0.0
        self._saved = 0.0
        self._log = get_logger("use history")

    async def run(self) -> None:
        """Keep the history while this replica leads."""
        self._history = None
        await while_leading(self._leadership, self.step, STEP_SECONDS)

    async def step(self) -> None:
        """Look at all shares once; save what was seen from time to time."""
        try:
            if self._history is None:
                self._history = await self._stored()
                self._looked, self._saved = self._clock(), self._clock() - SAVE_SECONDS
            await self._look(self._history)
            if self._clock() - self._saved >= SAVE_SECONDS and self._leadership.leads:
                await self._store.write(USE_HISTORY_KEY, self._history.text())
                self._saved = self._clock()
        except _UNKNOWN as error:
            self._log.warning("the history of use is not stored", error=f"{type(error).__name__}: {error}")

    async def _stored(self) -> OwnerHistory:
        text = await self._store.read(USE_HISTORY_KEY)
        try:
            return OwnerHistory(text)
        except msgspec.MsgspecError as error:
            self._log.error("the stored history of use cannot be read: it begins again", error=str(error))
            return OwnerHistory()

    async def _look(self, history: OwnerHistory) -> None:
        """Add what pods use now; time in which nobody looked does not count."""
        passed = self._clock() - self._looked
        self._looked = self._clock()
        seconds, now = round(min(passed, 2 * STEP_SECONDS)), int(self._now())
        async for names in self._state.yielding.batches(list(self._state.agents)):
            for name in names:
                self._add(history, name, seconds, now)
        history.end_step(now)

    def _add(self, history: OwnerHistory, node: str, seconds: int, now: int) -> None:
        view, known, use = self._state.ledger.node(node), self._state.nodes.get(node), self._state.use(node)
        if view is None or known is None or known.fact.agent != "serving" or not use.by_pod:
            return
        for share in shares_in_use(view, use):
            pod = self._state.pods.get((share.namespace, share.pod))
            if share.use is not None and pod is not None and pod.injected is not None:
                owner, uid = pod.injected.workload, pod.injected.uid
                history.add(share, share.use, owner=owner, uid=uid, seconds=seconds, now=now)
