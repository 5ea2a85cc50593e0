"""Programs that stages run as separate processes, each with a line of JSON on stdout at its end.

`python -m bench.gpu.child NAME ARGUMENTS...`, by `PROGRAMS`. Most print a line first when they are ready, and
go on when a line comes on stdin.
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
LAUNCHES = 200
"""Kernels that are started before one waits for them."""
MATRIX, MULTIPLICATIONS = 4096, 20
REFUSALS = 1000
CANNOT = 3
"""Exit status where CUDA does not start."""


def fill(kind: str, most: str, step: str, finest: str) -> Mapping[str, Any]:
    """Allocate in steps of MiB, at the end in finest ones, until that fails or the maximum is reached."""
    cuda, begun = Cuda(), time.monotonic()
    free, total = (amount // MIB for amount in cuda.memory())
    held, refused = _fill(cuda, kind, int(most), int(step), int(finest))
    _wait(held_mib=held, seconds=round(time.monotonic() - begun, 3))
    return {"held_mib": held, "refused": refused, "free_mib": free, "total_mib": total}


def _fill(cuda: Cuda, kind: str, most: int, step: int, finest: int) -> tuple[int, str]:
    held, refused = 0, ""
    while held < most:
        try:
            cuda.allocate(kind, step * MIB)
            held += step
        except CudaError as error:
            refused = str(error)
            if step == finest:
                break
            step = max(finest, step // 8)
    return held, refused


def start() -> Mapping[str, Any]:
    """Have a context, and say how long that took."""
    begun = time.monotonic()
    Cuda()
    return {"context_s": round(time.monotonic() - begun, 4)}


def busy(seconds: str) -> Mapping[str, Any]:
    """Fill memory for so long after a line comes on stdin."""
    cuda = Cuda()
    address = cuda.allocate("cuMemAlloc", BLOCK)
    _wait(held_mib=BLOCK // MIB)
    return _busy(cuda, address, float(seconds))


def _busy(cuda: Cuda, address: int, seconds: float) -> Mapping[str, float]:
    """Return the MiB filled in a second, and the longest time that one block took."""
    begun = before = time.monotonic()
    blocks, worst = 0, 0.0
    while before - begun < seconds:
        cuda.set_memory(address, BLOCK, blocks % 256)
        blocks += 1
        now = time.monotonic()
        worst, before = max(worst, now - before), now
    rate = blocks * (BLOCK // MIB) / (before - begun)
    return {"mib_per_s": round(rate), "worst_ms": round(1000 * worst, 3)}


def victim(held: str, more: str, seconds: str) -> Mapping[str, Any]:
    """Fill memory twice, each time after a line comes on stdin; then allocate more."""
    cuda = Cuda()
    address = cuda.allocate("cuMemAlloc", int(held) * MIB)
    _wait(held_mib=int(held))
    _wait(**_busy(cuda, address, float(seconds)))
    speed = _busy(cuda, address, float(seconds))
    further, refused = _fill(cuda, "cuMemAlloc", int(more), 1, 1)
    return {**speed, "further_mib": further, "refused": refused}


def hog(most: str, seconds: str) -> Mapping[str, Any]:
    """Fill a share, and try to get more a thousand times in so long."""
    cuda = Cuda()
    held, _ = _fill(cuda, "cuMemAlloc", int(most), 64, 1)
    _wait(held_mib=held)
    refused = 0
    for _ in range(REFUSALS):
        refused += not _fill(cuda, "cuMemAlloc", 1, 1, 1)[0]
        time.sleep(float(seconds) / REFUSALS)
    return {"held_mib": held, "refused": refused}


def launch(seconds: str) -> Mapping[str, Any]:
    """Start the smallest kernel for so long."""
    cuda = Cuda()
    run = cuda.writer(cuda.allocate("cuMemAlloc", MIB))
    return {"per_s": _rate(run, cuda.wait, LAUNCHES, float(seconds))}


def matmul(seconds: str) -> Mapping[str, Any]:
    """Multiply matrices with torch for so long."""
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415 - only where it is installed

    matrix = torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16)
    wait = torch.cuda.synchronize
    _rate(lambda: matrix @ matrix, wait, MULTIPLICATIONS, 0.1)
    return {"per_s": _rate(lambda: matrix @ matrix, wait, MULTIPLICATIONS, float(seconds))}


def _rate(run: Callable[[], object], wait: Callable[[], object], at_once: int, seconds: float) -> float:
    begun, runs = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        for _ in range(at_once):
            run()
        wait()
        runs += at_once
    return round(runs / (time.monotonic() - begun), 1)


def fault() -> Mapping[str, Any]:
    """Write to an invalid address."""
    cuda = Cuda()
    try:
        cuda.writer(0x10)()
        cuda.wait()
    except CudaError as error:
        return {"refused": str(error)}
    return {"refused": ""}


def _wait(**figures: float) -> None:
    print(json.dumps(figures), flush=True)
    sys.stdin.readline()


PROGRAMS: dict[str, Callable[..., Mapping[str, Any]]] = {
    program.__name__: program for program in (fill, start, busy, victim, hog, launch, matmul, fault)
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
