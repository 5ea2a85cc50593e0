"""A child process in its own group, with a log file, free ports and an end that always comes."""

import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from testbed.preloaded import Forked, forked, status

T = TypeVar("T")

POLL_S = 0.05
LONGEST_PAUSE_S = 0.25
WAIT_S = 120
"""Until a wait gives up, so that it lasts on two cores with a load of 20; only who waits in vain loses it."""
PORT_TRIES = 3
_THREADS = 14
"""Place of the number of threads in /proc/PID/stat, after the process group."""
TIED = Path(__file__).with_name("tied_process.py")


class ProcessError(Exception):
    """A process ended or did not get ready; the text ends with its log."""


class Stoppable(ABC):
    """What runs already, and stops with its context."""

    @abstractmethod
    def stop(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()


class Process(Stoppable):
    """A running command. Use as a context manager, or call `stop`.

    Args:
        argv: Absolute path of the program, then its arguments.
        log: File that stdout and stderr are appended to; its stem names the process in messages.
        grace_s: Seconds between SIGTERM and SIGKILL; 0 kills at once.
        environment: Variables in addition to ours.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        *,
        grace_s: float = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._grace_s = grace_s
        self._child = forked(argv, log, environment or {}) or _started(argv, log, environment or {})

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        if self._child.returncode is not None:
            return self._child.returncode
        # Not waited for: the number, and the group's, stay its own until `stop`.
        if isinstance(self._child, Forked):
            return self._child.poll()
        return status(self.pid)

    def until_ready(self, ready: Callable[[], object], seconds: float) -> None:
        """Poll `ready` until it returns something true.

        Raises:
            ProcessError: The process ended first, or the time is over.
        """
        name, begun = self.log.stem, time.monotonic()
        while not ready():
            if self.exit_code is not None:
                raise ProcessError(f"{name} ended with {self.exit_code}:\n{tail(self.log)}")
            waited = time.monotonic() - begun
            if waited > seconds:
                raise ProcessError(f"{name} was not ready after {seconds:.0f} s:\n{tail(self.log)}")
            time.sleep(pause_after(waited))

    def stop(self) -> None:
        """End the process and its whole group, and wait until it is gone. Again: nothing happens."""
        if self._child.returncode is not None:
            return
        if self._grace_s:
            os.kill(self.pid, signal.SIGTERM)
            end = time.monotonic() + self._grace_s
            while self.exit_code is None and time.monotonic() < end:
                time.sleep(POLL_S)
        os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        # A child of its own may still hold its ports: a large process takes a while to end.
        eventually(lambda: not lives(self.pid), f"{self.log.stem} and its children are gone")

    def kill(self) -> None:
        """End the group with SIGKILL, whatever its grace."""
        os.killpg(self.pid, signal.SIGKILL)
        self.stop()


def _started(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(TIED), str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,
        )


def lives(group: int) -> bool:
    """Whether a process of a group has not closed its files yet; what nobody waited for has."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, stat = file.read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # It ended meanwhile.
        state, _, its_group, *others = stat.split()
        if int(its_group) == group and (state not in "ZX" or int(others[_THREADS]) > 1):
            return True
    return False


def tail(log: Path, lines: int = 30) -> str:
    """Last lines of a log file; empty where there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1, all different, that nobody listens on at this moment."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def start_on_free_ports(
    count: int, start: Callable[[list[int]], Process], ready: Callable[[list[int]], object], seconds: float
) -> tuple[Process, list[int]]:
    """Start a process on ports chosen for it and wait until it is ready; again if one was taken meanwhile.

    Raises:
        ProcessError: It ended or was not ready in time, for another reason than a taken port.
    """
    for attempt in range(1, PORT_TRIES + 1):
        ports = free_ports(count)
        process = start(ports)
        try:
            process.until_ready(partial(ready, ports), seconds)
        except BaseException as error:
            process.stop()
            taken = isinstance(error, ProcessError) and "address already in use" in str(error).lower()
            if not taken or attempt == PORT_TRIES:
                raise
        else:
            return process, ports
    raise AssertionError("unreachable: the last attempt returns or raises")


def eventually(check: Callable[[], T | None], what: str, seconds: float = WAIT_S) -> T:
    """Poll `check` until it returns something true, and return that.

    Raises:
        AssertionError: It never did; `what` says what was awaited.
    """
    begun = time.monotonic()
    while not (found := check()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"not so after {seconds:.0f} s: {what} (last answer: {found!r})")
        time.sleep(pause_after(waited))
    return found


def pause_after(waited_s: float) -> float:
    """Seconds until the next look: a twentieth of the wait, because a look costs CPU of both sides."""
    return min(max(POLL_S, waited_s / 20), LONGEST_PAUSE_S)
