"""Run with `python -m bench.hostile`: thousands of hostile connections to a real webhook process.

The webhook has its own limits and a process of its own, and so have the bystanders, who behave as an API
server does. Parts below the webhook's number of connections meet its times; parts above it meet its places.
After each part all hostile clients are gone: then nothing may be left of them, and memory is read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from bench import bodies
from bench.processes import CHECKOUT, webhook_command
from testbed.hostile_connections import Campaign
from testbed.listening import dial

AT_ONCE = (100, 200, 400)
"""Hostile connections at a time, part by part; a port has 128 in all."""
PATIENCE = 20
"""Seconds that a hostile client takes at most: more than the webhook waits for a head, body or handshake."""
SETTLING_SECONDS = 60
REST_SECONDS = 20
"""For the last look at a closing connection, and for free memory to go back."""


class Webhook:
    """A webhook process that tells what it keeps."""

    def __init__(self, folder: Path) -> None:
        self.ca_file = folder / "tls" / "ca.crt"
        self._figures = folder / "figures"
        self._log = folder / "log"
        options = webhook_command(folder)[3:]
        command = [sys.executable, "-m", "bench.counted", str(self._figures), *options]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stderr=log, cwd=CHECKOUT)
        self._wait(lambda: "serving" in self._log.read_text())
        self.port = next(
            line["port"] for line in map(json.loads, self._log.read_text().splitlines()) if "port" in line
        )

    @property
    def sockets(self) -> int:
        """Open descriptors that are sockets."""
        links = Path(f"/proc/{self._process.pid}/fd").iterdir()
        return sum(_target(link).startswith("socket:") for link in links)

    def tell(self, number: signal.Signals) -> dict[str, Any]:
        """What it keeps now."""
        lines = self._lines()
        self._process.send_signal(number)
        self._wait(lambda: len(self._lines()) > len(lines))
        figures: dict[str, Any] = json.loads(self._lines()[-1])
        return figures

    def settle(self, sockets: int) -> None:
        """Wait until all its connections are gone."""
        self._wait(lambda: self.sockets <= sockets)
        time.sleep(REST_SECONDS)

    def stop(self) -> list[str]:
        """End it; what was wrong with its end or its log."""
        self._process.terminate()
        status = self._process.wait(SETTLING_SECONDS)
        lines = self._log.read_text().splitlines()
        return [
            *([f"it ended with status {status}"] if status else []),
            *(line for line in lines if not line.startswith("{") or '"level":"error"' in line),
        ]

    def _lines(self) -> list[str]:
        text = self._figures.read_text() if self._figures.exists() else ""
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _wait(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + SETTLING_SECONDS
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                raise TimeoutError(
                    f"{self.sockets} sockets are open; its log: {self._log.read_text()[-2000:]}"
                )
            time.sleep(0.02)


def main(
    connections: Annotated[int, typer.Option(help="Hostile connections in all.")] = 25_000,
    parts: Annotated[int, typer.Option(help="Memory is read after each.")] = 6,
    seed: Annotated[int, typer.Option(help="Of the first part; each other one has the next.")] = 14,
) -> None:
    """Attack a webhook in parts; ends with 1 where anything was found."""
    # A client that writes to a closed connection gets an error, which is what it is for.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        webhook = Webhook(Path(folder))
        sockets, first = webhook.sockets, webhook.tell(signal.SIGUSR1)
        print(f"at rest: {first}", flush=True)
        for part in range(parts):
            findings += _part(webhook, connections // parts, AT_ONCE[part % len(AT_ONCE)], seed + part)
            webhook.settle(sockets)
            figures = webhook.tell(signal.SIGUSR1)
            print(f"  left: {figures}", flush=True)
            if figures["connection"] != first["connection"]:
                findings.append(f"objects of connections are left: {figures['connection']}")
        print(f"free memory given back: {webhook.tell(signal.SIGUSR2)}")
        findings += webhook.stop()
    print(f"findings: {len(findings)}", *findings, sep="\n  ")
    raise typer.Exit(bool(findings))


def _part(webhook: Webhook, number: int, at_once: int, seed: int) -> list[str]:
    """Attack, with bystanders; what these found."""
    command = [sys.executable, "-m", "bench.bystanders", str(webhook.port), str(webhook.ca_file), str(seed)]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT) as clients:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            done = runner.run(_attack(webhook, number, at_once, seed))
        figures = json.loads(clients.communicate()[0].splitlines()[-1])
    print(
        f"{number} hostile connections, {at_once} at a time, {time.monotonic() - began:.0f} s: {dict(done)}"
    )
    found: list[str] = figures.pop("findings")
    print(f"  bystanders: {figures}, {len(found)} findings")
    return found


async def _attack(webhook: Webhook, number: int, at_once: int, seed: int) -> Counter[str]:
    trust = ssl.create_default_context(cafile=webhook.ca_file)
    sample = [b"{}", *bodies.bare(4), *bodies.clearml(4)]
    tls = {"ssl": trust, "server_hostname": "localhost"}
    attack = Campaign(partial(dial, webhook.port), tls, seed, sample, PATIENCE)
    await attack.run(number, at_once)
    return attack.done


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    typer.run(main)
