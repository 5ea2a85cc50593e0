"""`python -m bench.counted FILE webhook ...`: the command, which tells what it keeps when it gets SIGUSR1.

A line of JSON is added to FILE each time: resident MiB, the most so far, and living objects of a connection.
With SIGUSR2, free memory is given back first, so that what stays is in use, or next to what is.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from cli.main import main
from service.http.free_memory import give_back, resident

OF_A_CONNECTION = (
    "Connection", "_Open", "SSLProtocol", "SSLObject", "_SSLSocket", "TCPTransport", "TimerHandle",
    "Task", "RequestResponseCycle", "FlowControl",
)  # fmt: skip


def _tell(file: Path, number: int) -> None:
    gc.collect()
    if number == signal.SIGUSR2:
        give_back()
    alive = Counter(type(each).__name__ for each in gc.get_objects())
    figures: dict[str, Any] = {
        "resident": round(resident() / (1 << 20), 1),
        "peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "objects": sum(alive.values()),
        "connection": {name: alive[name] for name in OF_A_CONNECTION if alive[name]},
    }
    with file.open("a") as written:
        written.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    kept = Path(sys.argv.pop(1))
    for wanted in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(wanted, lambda number, _: _tell(kept, number))
    main()
