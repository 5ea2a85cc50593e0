"""Finds names that another device plugin registered: the kubelet uses the newest, and reports nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.kubelet import Kubelet, KubeletError
from agent.other_plugins import OtherPlugins
from agent.recurring_error import RecurringError
from agent.registration import Registrar
from service.background import beat
from service.log import get_logger
from service.retry import Backoff

PERIOD_SECONDS = 5.0
CALM_SECONDS = 300.0


class Ownership:
    """Compares what the kubelet counts with what is registered, and with what other plugins offer.

    Such a name is registered again, but less and less often while the other plugin does the same: after each
    change the scheduler sees a node without slices for a moment.
    """

    def __init__(self, kubelet: Kubelet, registrars: Sequence[Registrar], others: OtherPlugins) -> None:
        self._kubelet = kubelet
        self._others = others
        self._registrars = registrars
        self._retries = {each: Backoff(first_seconds=1.0, max_seconds=60.0) for each in registrars}
        self._taken_at: dict[Registrar, float] = {}
        log = get_logger("ownership")
        self._failed = RecurringError(
            log.warning, "cannot see which devices the kubelet counts", KubeletError
        )

    async def run(self) -> None:
        """Compare the devices that the kubelet counts with ours until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            beat()
            settled = [each for each in self._registrars if each.is_settled]
            with self._failed:
                counted, holders = await self._kubelet.allocatable(), await self._kubelet.holders()
            if self._failed.text is not None:
                continue
            self._others.look(counted, holders)
            for registrar in settled:
                self._compare(registrar, counted.get(registrar.plugin.resource, frozenset()))

    def _compare(self, registrar: Registrar, counted: frozenset[str]) -> None:
        """Register a name again if the kubelet counts other devices under it."""
        ours = registrar.plugin.healthy_ids
        now, taken_at = asyncio.get_running_loop().time(), self._taken_at.get(registrar)
        # While health changes, only some of ours may be counted, or none may be healthy.
        if not ours or counted & ours or not registrar.is_settled:
            if taken_at is not None and now - taken_at > CALM_SECONDS:
                self._retries[registrar].reset()
            return
        if taken_at is not None and now - taken_at < self._retries[registrar].next():
            return
        self._taken_at[registrar] = now
        registrar.taken.set()
