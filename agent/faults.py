"""Faults of GPUs that need a repair: they are kept when the agent restarts, until the node reboots."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from agent.files import UNREADABLE, write_whole
from agent.private_folder import UntrustedError, private_folder, read_own
from agent.recurring_error import RecurringError
from service.log import get_logger

FILE = "faults.json"


class Fault(msgspec.Struct, frozen=True):
    """A fault of a GPU."""

    xid: int
    asked: bool = False
    """Whether the GPU has been away since, or its driver asked for a recovery; after that it is repaired."""


class _Kept(msgspec.Struct, frozen=True):
    boot: str
    faults: dict[str, Fault]


class Faults:
    """Faults by UUID, in a file in the agent's private folder.

    Args:
        state_dir: the agent's folder.
        boot: ID of the node's boot; if it is empty, nothing is stored.
    """

    def __init__(self, state_dir: Path, boot: str) -> None:
        self._state_dir = state_dir
        self._boot = boot
        self._saving = threading.Lock()
        self._log = get_logger("faults")
        not_kept = "faults of GPUs are not kept: a restart forgets them"
        self._failed = RecurringError(self._log.warning, not_kept, OSError, UntrustedError)
        self._faults = self._read() if boot else {}

    def of(self, uuid: str) -> Fault | None:
        """Return the fault of a GPU; None without one."""
        return self._faults.get(uuid)

    def set(self, uuid: str, fault: Fault) -> None:
        """Store the fault of a GPU in place of an earlier one."""
        self._faults[uuid] = fault

    def remove(self, uuid: str) -> None:
        """Remove the fault of a repaired GPU."""
        self._faults.pop(uuid, None)

    def save(self) -> None:
        """Write them. If that fails, they are only in memory."""
        if self._boot:
            with self._saving, self._failed:
                content = msgspec.json.encode(_Kept(self._boot, dict(self._faults)))
                write_whole(private_folder(self._state_dir) / FILE, content)

    def _read(self) -> dict[str, Fault]:
        try:
            kept = msgspec.json.decode(read_own(private_folder(self._state_dir) / FILE), type=_Kept)
        except FileNotFoundError:
            return {}
        except (*UNREADABLE, UntrustedError) as error:
            self._log.warning("faults of GPUs from before are not known", error=str(error))
            return {}
        return kept.faults if kept.boot == self._boot else {}
