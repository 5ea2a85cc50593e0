"""Run with `python -m bench.hostile`: thousands of hostile connections, and what they leave behind.

The same as tests/service/test_hostile_connections.py, for longer; and memory is read after each part.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from tests.service.hostile import Campaign, campaign

PARTS = 5


def main(
    connections: Annotated[int, typer.Option(help="Hostile connections in all.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Of the first part; each other one has the next.")] = 14,
) -> None:
    """Attack a listener in parts, after a warm-up; ends with 1 where anything was found."""
    findings = 0
    for part in range(PARTS + 1):
        number = connections // PARTS if part else connections // 20
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(campaign(number, seed + part, _told))
        gc.collect()
        findings += len(found)
        name = f"part {part}" if part else "warm-up"
        print(
            f"{name}: {number} connections, {_resident() >> 20} MiB resident, findings: {found}", flush=True
        )
    raise typer.Exit(findings > 0)


def _told(attack: Campaign) -> None:
    print(f"{attack.bystanders} bystanders answered; {dict(attack.done)}")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    typer.run(main)
