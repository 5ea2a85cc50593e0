"""`python -m bench.bystanders PORT CA_FILE SEED`: clients like an API server's, until their input ends.

In a process of their own, so that nothing but the server can make them wait. Their last line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Sequence
from functools import partial

import uvloop

from bench import bodies
from testbed.bystander import Bystander
from testbed.listening import dial

COUNT = 4
SECONDS = 60
"""An answer may be late where both cores are busy; that it comes at all is the point."""
LATE_SECONDS = 5
"""An API server has given up by then."""


async def main(port: int, ca_file: str, seed: int) -> list[Bystander]:
    """Ask until the input ends."""
    trust = ssl.create_default_context(cafile=ca_file)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, over.set)
    sample = [*bodies.bare(4), *bodies.clearml(8), *bodies.padded(200_000, 1), *bodies.padded(1 << 20, 1)]
    connect = partial(dial, port, ssl=trust, server_hostname="localhost")
    asking = [Bystander(connect, sample, seed + number, seconds=SECONDS) for number in range(COUNT)]
    await asyncio.gather(*(each.ask_on(over.is_set) for each in asking))
    return asking


def summary(asked: Sequence[Bystander]) -> str:
    """What they met, as JSON."""
    waits = sorted(wait for each in asked for wait in each.waits)
    return json.dumps(
        {
            "answered": len(waits),
            "p50": round(waits[len(waits) // 2], 4),
            "p99": round(waits[len(waits) * 99 // 100], 4),
            "longest": round(waits[-1], 4),
            "late": sum(wait > LATE_SECONDS for wait in waits),
            "opened": sum(each.opened for each in asked),
            "asked_again": sum(each.asked_again for each in asked),
            "findings": [finding for each in asked for finding in each.findings],
        }
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(summary(runner.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))))
