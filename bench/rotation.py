"""Run with `python -m bench.rotation`: certificates swapped under load, one in five with a key of another.

The real webhook serves a directory that changes as the kubelet changes a mounted Secret. Meanwhile clients
that trust only the CA open a connection for each review. Every handshake that fails counts.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.client import Answers, Connection
from bench.harness import Bar, Figure, report
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.processes import CHECKOUT, on_core, webhook_command
from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.values import KeyPair

CLIENTS = 4
BROKEN_EVERY = 5
SERVED, REFUSED = "certificate is served", "certificate is not served"


def main(
    swaps: Annotated[int, typer.Option(help="Certificate swaps.")] = 50,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Count failed handshakes."""
    pin(LOADING_CORE)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        answers = asyncio.run(_rotate(Path(folder), swaps))
    broken = f"{swaps // BROKEN_EVERY} of {swaps} swaps broken"
    note = f"{broken}, {answers.good} new connections by {CLIENTS} clients"
    if answers.failures:
        note += f"; first failure: {answers.failures[0]}"
    failed = [float(len(answers.failures))]
    report(
        "rotation",
        [Figure(f"failed handshakes in {swaps} swaps", "", failed, bar=Bar("<=", 0), note=note)],
        watch,
        json_file,
    )


async def _rotate(folder: Path, swaps: int) -> Answers:
    authority = make_authority(datetime.now(UTC))
    mount = folder / "tls"
    _mount(mount, authority, 0, broken=False)
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    async with _webhook(mount) as (port, events):
        stop = asyncio.Event()
        answers = Answers()
        clients = [asyncio.create_task(_connect_always(port, trust, stop, answers)) for _ in range(CLIENTS)]
        for number in range(1, swaps + 1):
            broken = number % BROKEN_EVERY == 0
            _mount(mount, authority, number, broken=broken)
            await _wait_for(events, REFUSED if broken else SERVED)
        stop.set()
        await asyncio.gather(*clients)
    return answers


async def _connect_always(port: int, trust: ssl.SSLContext, stop: asyncio.Event, answers: Answers) -> None:
    """Open a connection for each review until asked to stop."""
    body = bodies.clearml(1)[0]
    while not stop.is_set():
        connection = Connection(port, trust)
        try:
            await connection.post(body)
        except (OSError, ValueError) as error:
            answers.failures.append(f"{type(error).__name__}: {error}")
        else:
            answers.good += 1
        await connection.end()


@asynccontextmanager
async def _webhook(mount: Path) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    command = webhook_command(mount.parent, "--tls-dir", str(mount))
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, cwd=CHECKOUT)
    on_core(process.pid, MEASURED_CORE)
    assert process.stderr is not None
    try:
        port = int((await _wait_for(process.stderr, "serving"))["port"])
        yield port, process.stderr
        process.terminate()
        await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _wait_for(lines: asyncio.StreamReader, event: str) -> dict[str, str]:
    while line := await lines.readline():
        said: dict[str, str] = json.loads(line)
        if said["event"] == event:
            return said
    raise RuntimeError(f"the webhook ended before it said: {event}")


def _mount(directory: Path, authority: KeyPair, number: int, *, broken: bool) -> None:
    """Write a new pair, or a torn one, the way the kubelet does: a new folder, then one symlink renamed."""
    now = datetime.now(UTC)
    leaf = make_leaf(authority, LOCAL_NAMES, now)
    key = make_leaf(authority, LOCAL_NAMES, now).key_pem if broken else leaf.key_pem
    content = {"tls.crt": leaf.certificate_pem, "tls.key": key, "ca.crt": authority.certificate_pem}
    generation = directory / f"..generation-{number}"
    generation.mkdir(parents=True)
    for name, data in content.items():
        (generation / name).write_bytes(data)
        if number == 0:
            (directory / name).symlink_to(Path("..data") / name)
    coming = directory / "..data_tmp"
    coming.symlink_to(generation.name)
    coming.replace(directory / "..data")


if __name__ == "__main__":
    typer.run(main)
