"""Start the product's processes as forks of one that has loaded them.

To load the webhook and the controller takes four seconds of CPU, to fork 20 ms, and no test of a control
plane tries how they load. The image, the demo and the wheel are started as users do.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from testbed.tied_process import tie

NAME = "fraction-injector"
LOADED = ("cli.main", "cli.commands.webhook", "cli.commands.controller", "controller.process")
_servers: list[Server] = []


class Server:
    """The process that forks, seen from the tests. It ends with its connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rw")
        self._turn = Lock()

    def ask(self, *question: object) -> Any:
        """Return the answer to one of `ANSWERS` with its arguments."""
        with self._turn:
            self._lines.write(json.dumps(question) + "\n")
            self._lines.flush()
            return json.loads(self._lines.readline())


class Forked:
    """A process that the server forked, as far as `subprocess.Popen` is used of it."""

    def __init__(
        self, server: Server, argv: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self._server = server
        self.pid: int = server.ask("start", list(argv), str(log), {**os.environ, **environment})
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code without reaping: the number stays its own."""
        code: int | None = self._server.ask("status", self.pid)
        return code

    def wait(self) -> int:
        """Wait until it ended, and reap it."""
        code: int = self._server.ask("reap", self.pid)
        self.returncode = code
        return code


def forked(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked | None:
    """Fork a process if it is the product's and tests have a server."""
    if not _servers or Path(argv[0]).name != NAME:
        return None
    return Forked(_servers[-1], argv, log, environment)


@contextmanager
def preloaded() -> Iterator[None]:
    """Start the product's processes by fork meanwhile."""
    ours, its = socket.socketpair()
    command = [sys.executable, "-m", "testbed.preloaded", str(its.fileno())]
    with ours, subprocess.Popen(command, pass_fds=[its.fileno()]) as child:
        its.close()
        _servers.append(Server(ours))
        try:
            yield
        finally:
            _servers.pop()
            ours.shutdown(socket.SHUT_RDWR)
            child.wait()


def start(argv: list[str], log: str, environment: dict[str, str]) -> int:
    """Fork the command line with these arguments; return the id of the process and of its group."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(argv, log, environment, parent)
    os.setpgid(pid, pid)
    return pid


def status(pid: int) -> int | None:
    """Return the exit code of a process that ended; None while it runs. Its number stays its own."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def reap(pid: int) -> int:
    """Wait for the end of a process; return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


ANSWERS: dict[str, Callable[..., object]] = {"start": start, "status": status, "reap": reap}


def _become(argv: list[str], log: str, environment: dict[str, str], parent: int) -> None:
    from cli.main import main  # noqa: PLC0415 loaded by the server

    os.setpgid(0, 0)
    tie(parent)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(file, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    main()
    raise SystemExit


def serve(connection: socket.socket) -> None:
    """Load the product and answer until the tests are gone."""
    for module in LOADED:
        importlib.import_module(module)
    gc.freeze()
    lines = connection.makefile("rw")
    for line in lines:
        name, *arguments = json.loads(line)
        lines.write(json.dumps(ANSWERS[name](*arguments)) + "\n")
        lines.flush()


if __name__ == "__main__":
    tie(os.getppid())
    with socket.socket(fileno=int(sys.argv[1])) as connected:
        serve(connected)
