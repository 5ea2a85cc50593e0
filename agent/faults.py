"""Faults of GPUs that need somebody to repair them: they outlive the agent, and end with a reboot."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from agent.files import UNREADABLE, write_whole
from agent.private_folder import UntrustedError, private_folder, read_own
from service.log import get_logger

FILE = "faults.json"
MAX_FAULTS = 64
MAX_BYTES = 64 * 1024


class Fault(msgspec.Struct, frozen=True):
    """What happened to a GPU."""

    xid: int
    asked: bool = False
    """Whether the GPU was away since, or its driver asked for a recovery: after that it is repaired."""


class _Kept(msgspec.Struct, frozen=True):
    boot: str
    faults: dict[str, Fault]


class Faults:
    """Faults by uuid, in a file of the agent's private folder.

    Args:
        state_dir: of the agent.
        boot: tells this boot of the node from others; empty keeps nothing.
    """

    def __init__(self, state_dir: Path, boot: str) -> None:
        self._state_dir = state_dir
        self._boot = boot
        self._faults: dict[str, Fault] = {}
        self._saved: dict[str, Fault] = {}
        self._saving = threading.Lock()
        self._log = get_logger("faults")
        if boot:
            self._faults = self._read()
            self._saved = dict(self._faults)

    def of(self, uuid: str) -> Fault | None:
        """Return the fault of a GPU, if it has one."""
        return self._faults.get(uuid)

    def set(self, uuid: str, fault: Fault) -> None:
        """Note a fault, in place of what the GPU had."""
        self._faults[uuid] = fault

    def remove(self, uuid: str) -> None:
        """Note that a GPU is repaired."""
        self._faults.pop(uuid, None)

    def save(self) -> None:
        """Write them, if they changed. Where that fails they are in the memory alone."""
        with self._saving:
            faults = dict(list(self._faults.items())[-MAX_FAULTS:])
            if not self._boot or faults == self._saved:
                return
            self._saved = faults
            try:
                content = msgspec.json.encode(_Kept(self._boot, faults))
                write_whole(private_folder(self._state_dir) / FILE, content)
            except (OSError, UntrustedError) as error:
                self._log.warning("faults of GPUs are not kept: a restart forgets them", error=str(error))

    def _read(self) -> dict[str, Fault]:
        try:
            content = read_own(private_folder(self._state_dir) / FILE)
            kept = msgspec.json.decode(content, type=_Kept) if len(content) <= MAX_BYTES else None
        except FileNotFoundError:
            return {}
        except (*UNREADABLE, UntrustedError) as error:
            self._log.warning("faults of GPUs from before are not known", error=str(error))
            return {}
        return kept.faults if kept is not None and kept.boot == self._boot else {}
