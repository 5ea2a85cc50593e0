"""Servers as processes on a core of their own, with their log lines read as a container runtime would."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.bodies import FIXTURES
from bench.machine import LOADING_CORE, MEASURED_CORE
from testbed.certificate_files import write_tls

CHECKOUT = Path(__file__).parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that serves."""

    pid: int
    port: int

    @property
    def rss_mb(self) -> float:
        """Resident memory, in MB of a million bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise ProcessLookupError(self.pid)

    @property
    def cpu_seconds(self) -> float:
        """CPU used since its start."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def serving(name: str) -> Iterator[Server]:
    """Run one of bench/server.py's."""
    with _process([sys.executable, "-m", "bench.server", name], stdout=subprocess.PIPE) as process:
        reader = _drain(process.stderr)
        yield Server(process.pid, int(_first_line(process.stdout)))
        _stop(process, reader)


@contextmanager
def webhook(folder: Path, *options: str) -> Iterator[Server]:
    """Run the real `fraction-injector webhook` with a ledger of its own."""
    with _process(webhook_command(folder, *options)) as process:
        port = _port(process)
        reader = _drain(process.stderr)
        yield Server(process.pid, port)
        _stop(process, reader)


def webhook_command(folder: Path, *options: str) -> list[str]:
    """The command line of a webhook whose ledger is its own; its certificate is mounted, as in a cluster."""
    given = ["--inventory", str(FIXTURES / "inventory.json"), "--stop-delay", "0", *options]
    if "--tls-dir" not in options:
        given += ["--tls-dir", str(write_tls(folder / "tls"))]
    if "--port" not in options:
        given += ["--port", "0"]
    return [sys.executable, "-m", "cli.main", "webhook", *given]


def on_core(pid: int, core: int) -> None:
    """Keep a process, which has no threads yet, on one core."""
    os.sched_setaffinity(pid, {core})


def _port(process: subprocess.Popen[bytes]) -> int:
    lines = iter(lambda: _said(process.stderr), None)
    return next(int(line["port"]) for line in lines if "port" in line)


@contextmanager
def _process(command: list[str], stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, cwd=CHECKOUT) as process:
        on_core(process.pid, MEASURED_CORE)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _first_line(stream: IO[bytes] | None) -> bytes:
    line = stream.readline() if stream is not None else b""
    if not line:
        raise RuntimeError("the server ended before it served")
    return line


def _said(stream: IO[bytes] | None) -> dict[str, Any]:
    """The next log line.

    Raises:
        RuntimeError: the process wrote something else, such as a traceback; the text is all of it.
    """
    line = _first_line(stream)
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        rest = stream.read() if stream is not None else b""
        raise RuntimeError(f"no log line: {(line + rest).decode()}") from None
    return said


def _drain(stream: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Read log lines on the core that loads, as fast as they come."""
    reader = subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.DEVNULL)
    on_core(reader.pid, LOADING_CORE)
    return reader


def _stop(process: subprocess.Popen[bytes], reader: subprocess.Popen[bytes]) -> None:
    process.terminate()
    status = process.wait(30)
    reader.wait(30)
    if status:
        raise RuntimeError(f"the server ended with status {status}")


@asynccontextmanager
async def child(module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one of this package's modules, to talk to from an event loop, on the core that loads."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=PIPE, stdout=PIPE, limit=2**24, cwd=CHECKOUT
    )
    on_core(process.pid, LOADING_CORE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def child_line(process: asyncio.subprocess.Process) -> bytes:
    """Read a line that it prints.

    Raises:
        RuntimeError: it ended.
    """
    if process.stdout is None:
        raise AssertionError("its output is a pipe")
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError("the process ended before it said anything")
    return line
