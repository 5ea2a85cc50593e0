"""One attempt to run a task: its folder, its supervisor, and what became of both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from baremetal import supervisor
from baremetal.job import CACHE, MARK, JobFile
from baremetal.supervisor import BEGUN, EXIT, JOB, LOG, boot_id, removed, start_time, stat_of, take

_SESSION = 3
"""Field of /proc/PID/stat, counted from the state."""
SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd runs the machine."""
_MANAGER = () if os.geteuid() == 0 else ("--user",)
UNREADABLE = (OSError, msgspec.MsgspecError)


class Exit(msgspec.Struct, frozen=True):
    """How a command ended, as its supervisor wrote it."""

    code: int
    """Its exit code; minus the signal's number if a signal ended it."""
    at: float


class NotBegun:
    """The attempt never began, and never will."""


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


class _Begun(msgspec.Struct, frozen=True):
    """What the file says; all empty where a runner took the right away."""

    pid: int = 0
    start_time: int = 0
    boot: str = ""


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
        """Start a supervisor for a job.

        Raises:
            OSError: the folder cannot be written, or no process can be made.
        """
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        (self.folder / CACHE).mkdir(exist_ok=True)
        (self.folder / JOB).write_bytes(msgspec.json.encode(job))
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(self.folder)]
        with (self.folder / LOG).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 our own program
                [*self._scope(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {MARK: self.mark},
            )
        started = Supervised(process.pid, os.pidfd_open(process.pid))
        process.returncode = 0  # who waits for it is `Supervised.reap`
        return started

    def state(self) -> Exit | Supervised | NotBegun | Vanished:
        """Return what became of it; if it has not begun, it never will.

        Raises:
            OSError: nobody can say, as the disk is full or broken.
        """
        begun = self._begun()
        if begun is None or not begun.pid:
            return NotBegun()
        same_boot = begun.boot == boot_id()
        if same_boot and (pidfd := _opened(begun)) is not None:
            return Supervised(begun.pid, pidfd)
        ended = self._exit()
        if ended is not None:
            return ended
        return Vanished("its supervisor was killed" if same_boot else "the machine went down while it ran")

    def sweep(self) -> bool:
        """Kill what a supervisor that is gone left behind; return whether nothing is left."""
        begun = self._begun()
        if begun is None or not begun.pid or begun.boot != boot_id():
            return self._clean_up()
        if SYSTEMD.exists():
            kill = ["systemctl", *_MANAGER, "kill", "--signal=SIGKILL", self._unit]
            subprocess.run(kill, capture_output=True, check=False)  # noqa: S603 a unit that has ended is none
        found = list(self._processes(begun))
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found and self._clean_up()

    def _processes(self, begun: _Begun) -> Iterator[int]:
        """Yield what carries its mark, or is of its session and not older than it."""
        mark = f"{MARK}={self.mark}".encode()
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:  # noqa: PTH208
            fields = stat_of(pid)
            if fields is None:
                continue
            in_session = fields[_SESSION] == str(begun.pid) and (start_time(pid) or 0) >= begun.start_time
            if in_session or mark in _environment(pid):
                yield pid

    def _clean_up(self) -> bool:
        """Remove its container, if it is one."""
        try:
            job = msgspec.json.decode((self.folder / JOB).read_bytes(), type=JobFile)
        except UNREADABLE:
            return True  # it had none: the file is written before anything starts
        return not job.cleanup or removed(list(job.cleanup))

    def _begun(self) -> _Begun | None:
        """Return who began it, after nobody else can."""
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        if not (self.folder / BEGUN).exists() and take(self.folder, {}):
            return None
        return msgspec.json.decode((self.folder / BEGUN).read_bytes(), type=_Begun)

    def _exit(self) -> Exit | None:
        try:
            return msgspec.json.decode((self.folder / EXIT).read_bytes(), type=Exit)
        except FileNotFoundError:
            return None

    def _scope(self) -> Sequence[str]:
        """Return what gives it a control group of its own: one that stays when the runner's service stops."""
        if not SYSTEMD.exists():
            return ()
        return "systemd-run", *_MANAGER, "--scope", "--quiet", "--collect", f"--unit={self._unit}", "--"


def _opened(begun: _Begun) -> int | None:
    try:
        pidfd = os.pidfd_open(begun.pid)
    except ProcessLookupError:
        return None
    # Opened first: it stays that of one process, whoever gets the number next.
    if start_time(begun.pid) == begun.start_time:
        return pidfd
    os.close(pidfd)
    return None


def _environment(pid: int) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()
