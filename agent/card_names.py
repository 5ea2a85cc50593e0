"""The CDI devices of the cards, read from the node's specifications, and again when those change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path

from agent.cdi import CLAIM_FILE_PREFIX, FILE_PREFIX, CdiError
from agent.cdi_reader import KINDS_OF_CARDS, CardDevices, card_devices
from agent.driver_limits import LimitHook
from agent.files import Files, stamps_of
from agent.gpu import Gpu
from agent.recurring_error import RecurringError
from service.background import beat
from service.log import get_logger

POLL_SECONDS = 5.0


class CardNames:
    """CDI devices of cards, by UUID."""

    def __init__(self, dirs: Collection[str]) -> None:
        self.names: dict[str, str] = {}
        """Current CDI device of each card."""
        self.limit_hooks: dict[str, LimitHook] = {}
        """By UUID, for cards whose CDI devices have one."""
        self._dirs = dirs
        self._files: Files | None = None
        self._found: CardDevices = {}
        self._log = get_logger("card names")

    async def read(self, gpus: Iterable[Gpu]) -> None:
        """Update the names of these cards; unchanged files are not read again.

        Raises:
            CdiError: a card has none.
        """
        files = await asyncio.to_thread(self._stamps)
        if files != self._files:
            self._found = await asyncio.to_thread(card_devices, map(Path, self._dirs))
            self._files = files
        self.names.update(choose_names(self._found, gpus, self._dirs))
        devices = {
            f"{kind}={name}": hook for kind, of_kind in self._found.items() for name, hook in of_kind.items()
        }
        self.limit_hooks = {uuid: hook for uuid, name in self.names.items() if (hook := devices.get(name))}

    async def follow(self, gpus: Collection[Gpu], changed: Callable[[], Awaitable[None]]) -> None:
        """Read again whenever the files change, such as after a driver upgrade, until cancelled.

        Args:
            gpus: the cards.
            changed: called when a card's name or hook changed.
        """
        failed = RecurringError(self._log.warning, "cards go by the CDI names that they had", CdiError)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            beat()
            before = dict(self.names), self.limit_hooks
            with failed:
                await self.read(gpus)
            if (self.names, self.limit_hooks) != before:
                self._log.info("cards go by other CDI names", names=self.names)
                await changed()

    def _stamps(self) -> Files:
        return stamps_of(self._dirs, lambda name: not name.startswith((FILE_PREFIX, CLAIM_FILE_PREFIX)))


def choose_names(found: CardDevices, gpus: Iterable[Gpu], dirs: Collection[str]) -> dict[str, str]:
    """Choose a CDI device for each card: one with the hook for driver limits, else by UUID, else by index.

    Args:
        found: devices with these hooks, by kind and name.
        gpus: the cards.
        dirs: the folders, for the message.

    Raises:
        CdiError: a card has none.
    """
    kinds = [kind for kind in KINDS_OF_CARDS if kind in found]
    names = {}
    for gpu in gpus:
        candidates = [
            (kind, name) for name in (gpu.uuid, str(gpu.index)) for kind in kinds if name in found[kind]
        ]
        if not candidates:
            raise CdiError(
                f"no CDI specification in {', '.join(dirs)} names GPU {gpu.index} ({gpu.uuid}): set"
                " agent.driverRoot in the chart's values, or run nvidia-ctk cdi generate"
            )
        kind, name = max(candidates, key=lambda each: found[each[0]][each[1]] is not None)
        names[gpu.uuid] = f"{kind}={name}"
    return names
