"""One attempt to run a task: its folder, its supervisor, and what became of both."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from baremetal import supervisor
from baremetal.job import CACHE, MARK, JobFile
from baremetal.supervisor import BEGUN, EXIT, JOB, LOG, boot_id, removed, start_time, stat_of, take

_SESSION = 3
"""Field of /proc/PID/stat, counted from the state."""
SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd runs the machine."""
MANAGER = () if os.geteuid() == 0 else ("--user",)
_SCOPE = ("systemd-run", *MANAGER, "--scope", "--quiet", "--collect")


@functools.cache
def has_scopes() -> bool:
    """Return whether systemd gives this user control groups: a user without a session of its own has none."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        tried = subprocess.run([*_SCOPE, "--", "true"], capture_output=True, check=False, timeout=30)  # noqa: S603
        return SYSTEMD.exists() and tried.returncode == 0
    return False


class Exit(msgspec.Struct, frozen=True):
    """How a command ended, as its supervisor wrote it."""

    code: int
    """Its exit code; minus the signal's number if a signal ended it."""
    at: float
    """Unix time."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """It began, and its supervisor is gone without a word."""

    why: str


@dataclass(frozen=True, slots=True)
class Supervised:
    """Its supervisor runs."""

    pid: int
    pidfd: int
    """Becomes readable when it ends; the owner closes it."""

    def end(self) -> None:
        """Have it end its command: SIGTERM, and SIGKILL ten seconds later."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def reap(self) -> None:
        """Forget it, once it has ended; one that another runner started is not our child."""
        os.close(self.pidfd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


class Attempt:
    """An attempt, by its folder.

    Args:
        folder: its own.
        mark: its value of `MARK`, which its processes carry.
    """

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self._unit = f"fraction-injector-{mark.replace('/', '-')}.scope"

    def start(self, job: JobFile) -> Supervised:
        """Start a supervisor for a job, in a control group of its own where systemd gives one.

        Raises:
            OSError: the folder cannot be written, or no process can be made.
        """
        (self.folder / CACHE).mkdir(parents=True, exist_ok=True)
        # Not by msgspec: variables may hold bytes that are no UTF-8.
        (self.folder / JOB).write_text(json.dumps(msgspec.structs.asdict(job)))
        scope = (*_SCOPE, f"--unit={self._unit}", "--") if has_scopes() else ()
        with (self.folder / LOG).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 our own program
                [*scope, sys.executable, "-I", "-S", supervisor.__file__, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {MARK: self.mark},
            )
        started = Supervised(process.pid, os.pidfd_open(process.pid))
        process.returncode = 0  # who waits for it is `Supervised.reap`
        return started

    def state(self) -> Exit | Supervised | Vanished | None:
        """Return what became of it; None if it has not begun, and never will.

        Raises:
            OSError: nobody can say, as the disk is full or broken.
        """
        begun = self._begun()
        if not begun:
            return None
        same_boot = begun["boot"] == boot_id()
        if same_boot and (pidfd := _opened(begun["pid"], begun["start_time"])) is not None:
            return Supervised(begun["pid"], pidfd)
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode((self.folder / EXIT).read_bytes(), type=Exit)
        return Vanished("its supervisor was killed" if same_boot else "the machine went down while it ran")

    def sweep(self) -> bool:
        """Kill what a supervisor that is gone left behind; return whether nothing is left.

        Raises:
            OSError: nobody can say.
        """
        begun = self._begun()
        found = []
        if begun and begun["boot"] == boot_id():
            if has_scopes():
                kill = ["systemctl", *MANAGER, "kill", "--signal=SIGKILL", self._unit]
                subprocess.run(kill, capture_output=True, check=False)  # noqa: S603 what has ended is no unit
            found = list(self._processes(str(begun["pid"]), begun["start_time"]))
        for pid in found:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                os.kill(pid, signal.SIGKILL)
        return not found and self._clean_up()

    def _processes(self, session: str, since: int) -> Iterator[int]:
        """Yield what carries its mark, or is of its session and not older than it."""
        mark = f"{MARK}={self.mark}".encode()
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:  # noqa: PTH208
            fields = stat_of(pid)
            if fields is None:
                continue
            in_session = fields[_SESSION] == session and (start_time(pid) or 0) >= since
            if in_session or mark in _environment(pid):
                yield pid

    def _clean_up(self) -> bool:
        """Remove its container, if it is one."""
        try:
            cleanup = json.loads((self.folder / JOB).read_bytes())["cleanup"]
        except (OSError, ValueError):
            return True  # it had none: the file is written before anything starts
        return not cleanup or removed(cleanup)

    def _begun(self) -> dict[str, Any]:
        """Return who began it, after nobody else can; empty if nobody did."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / BEGUN).exists() and take(self.folder, {}):
            return {}
        found: dict[str, Any] = json.loads((self.folder / BEGUN).read_bytes())
        return found


def _opened(pid: int, since: int) -> int | None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Opened first: it stays that of one process, whoever gets the number next.
    if start_time(pid) == since:
        return pidfd
    os.close(pidfd)
    return None


def _environment(pid: int) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()
