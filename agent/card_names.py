"""The cards' own CDI devices: read from NVIDIA's specifications, and again when those change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from agent.cdi import FILE_PREFIX, CdiError
from agent.child_process import Child, ChildError
from agent.files import Files, stamps_of
from agent.gpu import Gpu
from service.log import get_logger

POLL_SECONDS = 5.0
_PREFERRED_KINDS = ("nvidia.com/gpu", "runtime.nvidia.com/gpu", "management.nvidia.com/gpu")


class CardNames:
    """CDI devices of cards by uuid.

    They are read by a process that ends: a YAML reader would stay in the memory.

    Args:
        dirs: with everybody's specifications.
    """

    def __init__(self, dirs: Collection[str]) -> None:
        self.names: dict[str, str] = {}
        """As of now."""
        self._dirs = dirs
        self._files: Files = frozenset()
        self._found: dict[str, list[str]] | None = None
        self._reading: Child | None = None
        self._log = get_logger("card names")

    def begin(self) -> Child:
        """Begin to read, which `read` ends.

        Raises:
            CdiError: the node has no process or memory to spare.
        """
        self._files, self._found = self._stamps(), None  # None: one that fails is begun again
        try:
            self._reading = Child("agent.cdi_reader", *self._dirs)
        except OSError as error:
            raise CdiError(
                f"CDI specifications cannot be read: no process starts: {error.strerror}"
            ) from error
        return self._reading

    async def read(self, gpus: Iterable[Gpu]) -> None:
        """Know the names of these cards; files that are as they were are not read again.

        Raises:
            CdiError: a card has none, or they cannot be read.
        """
        if self._reading is not None or self._found is None or self._stamps() != self._files:
            reading, self._reading = self._reading or self.begin(), None
            self._found = await _device_names(reading)
        self.names.update(choose_names(self._found, gpus, self._dirs))

    async def follow(self, gpus: Collection[Gpu], turned: Callable[[], None]) -> None:
        """Read again whenever the files change, as after an update of the driver, until cancelled."""
        said = ""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            turned()
            before = dict(self.names)
            try:
                await self.read(gpus)
            except CdiError as error:
                if str(error) != said:
                    self._log.warning("cards go by the CDI names that they had", error=str(error))
                said = str(error)
            if self.names != before:
                self._log.info("cards go by other CDI names", names=self.names)

    def _stamps(self) -> Files:
        return stamps_of(self._dirs, lambda name: not name.startswith(FILE_PREFIX))


async def _device_names(reading: Child) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(await reading.result(), type=dict[str, list[str]])
    except (ChildError, msgspec.MsgspecError) as error:
        raise CdiError(f"CDI specifications cannot be read: {error}") from error


def choose_names(
    found: Mapping[str, Collection[str]], gpus: Iterable[Gpu], dirs: Collection[str]
) -> dict[str, str]:
    """Choose a CDI device for each card: by uuid where any kind knows it, else by index.

    Args:
        found: names of devices by kind.
        gpus: the cards.
        dirs: where was looked, for the message.

    Raises:
        CdiError: a card has none.
    """
    others = sorted(
        kind for kind in found if kind.endswith("nvidia.com/gpu") and kind not in _PREFERRED_KINDS
    )
    kinds = [kind for kind in (*_PREFERRED_KINDS, *others) if kind in found]
    names = {}
    for gpu in gpus:
        candidates = [
            f"{kind}={name}" for name in (gpu.uuid, str(gpu.index)) for kind in kinds if name in found[kind]
        ]
        if not candidates:
            raise CdiError(
                f"no CDI specification in {', '.join(dirs)} names GPU {gpu.index} ({gpu.uuid}): install"
                " NVIDIA's container toolkit 1.18, or run nvidia-ctk cdi generate"
            )
        names[gpu.uuid] = candidates[0]
    return names
