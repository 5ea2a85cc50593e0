"""Stages that measure time: what a limiter costs, how long a program starts, how sharers slow down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from statistics import mean, median

from bench.gpu.driver import gpu_to_test, whole
from bench.gpu.limits import limited
from bench.gpu.processes import Share, children
from bench.gpu.stages import Figures, Setting

SHARERS = (1, 2, 4, 8)
STARTS = 5


def overhead(setting: Setting) -> Figures:
    """Measure programs without a limiter and with one, in turn, each twice."""
    gpu = gpu_to_test(setting)
    plain, with_limiter = whole(gpu), limited(setting, gpu, gpu.usable_mib)
    programs = {"launches": ("launch", "per_s"), "memset": ("busy", "mib_per_s")}
    if find_spec("torch") is not None:
        programs["matmul"] = ("matmul", "per_s")
    figures: dict[str, Figures] = {}
    for name, (program, figure) in programs.items():
        a, b, c, d = (
            _measured(program, figure, [share], setting.seconds / 2)[0]
            for share in (plain, with_limiter, with_limiter, plain)
        )
        without, limiting = mean((a, d)), mean((b, c))
        figures[name] = {"plain": without, "limited": limiting, "ratio": round(limiting / without, 4)}
    return figures


def _measured(program: str, figure: str, shares: Sequence[Share], seconds: float) -> list[float]:
    """Return a figure of programs that run at once."""
    with children((program, str(seconds)), *shares) as running:
        if program == "busy":
            for child in running:
                child.line()
            for child in running:
                child.go()
        return [float(child.line()[figure]) for child in running]


def startup(setting: Setting) -> Figures:
    """Measure the seconds until a program has a context: alone, limited, and eight limited ones at once."""
    gpu = gpu_to_test(setting)
    share = gpu.usable_mib // SHARERS[-1]
    plain = [_started([whole(gpu)]) for _ in range(STARTS)]
    with_limiter = [_started([limited(setting, gpu, share)]) for _ in range(STARTS)]
    eight = _started([limited(setting, gpu, share) for _ in range(SHARERS[-1])])
    return {"plain_s": median(plain), "limited_s": median(with_limiter), "last_of_eight_s": eight}


def _started(shares: Sequence[Share]) -> float:
    with children(("start",), *shares) as running:
        for child in running:
            child.line()
        return round(time.monotonic() - running[0].begun, 3)


def throughput(setting: Setting) -> Figures:
    """Measure how fast 1, 2, 4 and 8 programs fill memory at once."""
    share, figures = whole(gpu_to_test(setting)), dict[str, Figures]()
    for sharers in SHARERS:
        each = _measured("busy", "mib_per_s", [share] * sharers, setting.seconds)
        figures[str(sharers)] = {"mib_per_s": each, "sum": sum(each)}
    ratios = {name: round(figure["sum"] / figures["1"]["sum"], 3) for name, figure in figures.items()}
    return {"sharers": figures, "sum_to_one_sharer": ratios}
