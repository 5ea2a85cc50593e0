"""The CDI devices of the cards, read from the node's specifications, and again when those change."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path

from agent.cdi import CLAIM_FILE_PREFIX, FILE_PREFIX, CdiError
from agent.cdi_reader import KINDS_OF_CARDS, CardDevices, card_devices
from agent.driver_limits import LimitHook
from agent.files import Files, stamps_of
from agent.gpu import Gpu

_ADVICE = "set agent.driverRoot in the chart's values, or run nvidia-ctk cdi generate on the node"


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

    async def read(self, gpus: Iterable[Gpu]) -> None:
        """Update the names of these cards; unchanged files are not read again.

        Raises:
            CdiError: a card has none.
        """
        await asyncio.to_thread(self._read_files)
        self.names.update(choose_names(self._found, gpus, self._dirs))
        self.limit_hooks = {
            uuid: hook for uuid, name in self.names.items() if (hook := self._found.get(name)) is not None
        }

    def _read_files(self) -> None:
        files = stamps_of(self._dirs, lambda name: not name.startswith((FILE_PREFIX, CLAIM_FILE_PREFIX)))
        if files != self._files:
            self._found, self._files = card_devices(map(Path, self._dirs)), files


def choose_names(
    found: CardDevices, gpus: Iterable[Gpu], dirs: Collection[str], advice: str = _ADVICE
) -> dict[str, str]:
    """Choose a CDI device for each card: one with the hook for driver limits, else by UUID, else by index.

    Args:
        found: devices with their hooks, by kind and name.
        gpus: the cards.
        dirs: the folders, for the message.
        advice: what to do where a card has none, for the message.

    Raises:
        CdiError: a card has none.
    """
    names = {}
    for gpu in gpus:
        known = [f"{kind}={name}" for name in (gpu.uuid, gpu.index) for kind in KINDS_OF_CARDS]
        candidates = [each for each in known if each in found]
        if not candidates:
            raise CdiError(
                f"no CDI specification in {', '.join(dirs)} names GPU {gpu.index} ({gpu.uuid}): {advice}"
            )
        names[gpu.uuid] = max(candidates, key=lambda each: found[each] is not None)
    return names
