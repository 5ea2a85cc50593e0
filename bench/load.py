"""Load on a webhook over TLS: by wrk where it is installed, else by our own client."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.bodies import PATH
from bench.client import HOST, closed_loop

WRK = shutil.which("wrk")
OWN_CLIENT = "our own client in Python: its own cost hides a part of the server's"
_TIMES_LONGER = (1, 4, 16)
"""The duration of a load, and of those that follow while nothing is answered."""
_SCRIPT = Path(__file__).with_name("wrk.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What one closed-loop run came to."""

    requests: int
    rps: float
    p50_ms: float
    p99_ms: float


def tool() -> str:
    """What loads, for people: wrk with its version, or our own client."""
    if WRK is None:
        return OWN_CLIENT
    # `wrk -v` prints its usage too, and ends with 1.
    said = subprocess.run([WRK, "-v"], capture_output=True, text=True, check=False)
    return " ".join((said.stdout + said.stderr).split()[:2])


def press(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Keep so many reviews in flight for so long; this process's core is the one that loads.

    Longer if none is answered meanwhile: on a busy machine a second can pass in handshakes alone.

    Raises:
        RuntimeError: a request failed, or none was answered; a bench of failures measures nothing.
    """
    for longer in _TIMES_LONGER:
        load = _press(port, bodies, connections, seconds * longer)
        if load.requests:
            return load
    raise RuntimeError(f"nothing was answered within {seconds * _TIMES_LONGER[-1]:g} s")


def _press(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> Load:
    if WRK is None:
        return _own(port, bodies, connections, seconds)
    with tempfile.NamedTemporaryFile(suffix=".reviews") as file:
        for body in bodies:
            file.write(b"%d\n%b\n" % (len(body), body))
        file.flush()
        url = f"https://{HOST}:{port}{PATH}"
        options = ["--threads", "1", "--connections", str(connections), "--duration", f"{seconds:.0f}s"]
        command = [WRK, *options, "--timeout", "20s", "--script", str(_SCRIPT), url]
        done = subprocess.run([*command, "--", file.name], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout.strip().rpartition("\n")[2])
    if said["errors"]:
        raise RuntimeError(f"{said['errors']} of {said['requests']} requests failed: {done.stdout}")
    requests = said["requests"]
    return Load(requests, requests / said["microseconds"] * 1e6, said["p50"] / 1000, said["p99"] / 1000)


def _own(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> Load:
    answers = asyncio.run(closed_loop(port, bodies, connections, seconds))
    if answers.failures:
        raise RuntimeError(f"{len(answers.failures)} requests failed: {answers.failures[0]}")
    return Load(
        len(answers.latencies),
        len(answers.latencies) / answers.seconds,
        answers.percentile(50) * 1000,
        answers.percentile(99) * 1000,
    )
