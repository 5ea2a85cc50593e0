"""Programs that stages run as separate processes, each with a line of JSON on stdout at its end.

`python -m bench.gpu.child fill KIND MIB STEP`, `hold MIB`, `busy SECONDS`, `fault`. `hold` and `busy` first
print a line when they are ready, and go on when a line comes on stdin.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.gpu.cuda import MIB, Cuda, CudaError
from bench.gpu.stages import CannotError

BLOCK = 256 * MIB
"""Bytes that are filled again and again to keep a GPU busy."""
CANNOT = 3
"""Exit status where CUDA does not start."""


def fill(kind: str, most: str, step: str) -> Mapping[str, Any]:
    """Allocate in steps until an allocation fails, or the maximum is reached."""
    cuda, held = Cuda(), 0
    free, total = (amount // MIB for amount in cuda.memory())
    refused = ""
    while held < int(most):
        try:
            cuda.allocate(kind, int(step) * MIB)
        except CudaError as error:
            refused = str(error)
            break
        held += int(step)
    _wait(held_mib=held)
    return {"held_mib": held, "refused": refused, "free_mib": free, "total_mib": total}


def hold(amount: str) -> Mapping[str, Any]:
    """Allocate so much until a line comes on stdin."""
    cuda = Cuda()
    cuda.allocate("cuMemAlloc", int(amount) * MIB)
    _wait(held_mib=int(amount))
    return {"held_mib": int(amount)}


def busy(seconds: str) -> Mapping[str, Any]:
    """Fill memory for so long after a line comes on stdin; return MiB per second."""
    cuda = Cuda()
    address = cuda.allocate("cuMemAlloc", BLOCK)
    _wait(held_mib=BLOCK // MIB)
    begun, blocks = time.monotonic(), 0
    while time.monotonic() - begun < float(seconds):
        cuda.set_memory(address, BLOCK, blocks % 256)
        blocks += 1
    return {"mib_per_s": blocks * (BLOCK // MIB) / (time.monotonic() - begun)}


def fault() -> Mapping[str, Any]:
    """Write to an invalid address."""
    cuda = Cuda()
    try:
        cuda.write_to(0x10)
    except CudaError as error:
        return {"refused": str(error)}
    return {"refused": ""}


def _wait(**figures: int) -> None:
    print(json.dumps(figures), flush=True)
    sys.stdin.readline()


PROGRAMS: dict[str, Callable[..., Mapping[str, Any]]] = {
    "fill": fill,
    "hold": hold,
    "busy": busy,
    "fault": fault,
}


def main() -> None:
    """Run one program."""
    try:
        print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])), flush=True)
    except CannotError as error:
        print(json.dumps({"cannot": str(error)}), flush=True)
        sys.exit(CANNOT)


if __name__ == "__main__":
    main()
