"""Stages with CUDA programs on one GPU: what a limiter counts, whether shares fit, how sharers slow down."""

from __future__ import annotations

from collections.abc import Mapping

from bench.gpu.cuda import KINDS
from bench.gpu.driver import first_gpu, opened
from bench.gpu.processes import children
from bench.gpu.stages import CannotError, Figures, Setting, WrongError

LIMIT_MIB, STEP_MIB = 1024, 64
SHARES = 8
SHARERS = (1, 2, 4, 8)


def limiter(setting: Setting) -> Figures:
    """Allocate up to twice the limit in each way, and record where that fails."""
    limited = _limited(setting, LIMIT_MIB)
    most, step = str(2 * LIMIT_MIB), str(STEP_MIB)
    held = {kind: _held(setting, limited, kind, most, step) for kind in KINDS}
    escapes = {
        "LD_PRELOAD unset": _held(setting, {**limited, "LD_PRELOAD": ""}, "cuMemAlloc", most, step),
        "the program's own limit": _held(
            setting, {**limited, "CUDA_DEVICE_MEMORY_LIMIT_0": f"{most}m"}, "cuMemAlloc", most, step
        ),
    }
    figures = {"limit_mib": LIMIT_MIB, "held_mib": held, "escapes_mib": escapes}
    if held["cuMemAlloc"] > LIMIT_MIB:
        raise WrongError("plain allocations are not limited", figures)
    return figures


def _limited(setting: Setting, mib: int, share: str = "limiter") -> dict[str, str]:
    """Return the variables of a share, as the agent sets them: each container has a cache of its own."""
    if setting.limiter is None:
        raise CannotError("no limiter's library is named: --limiter FILE")
    return {
        "LD_PRELOAD": str(setting.limiter),
        "CUDA_DEVICE_MEMORY_LIMIT_0": f"{mib}m",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(setting.scratch / f"{share}.cache"),
        "LIBCUDA_LOG_LEVEL": "0",
    }


def _held(setting: Setting, environment: Mapping[str, str], kind: str, most: str, step: str) -> int:
    """Return the MiB that a program could allocate."""
    (setting.scratch / "limiter.cache").unlink(missing_ok=True)
    visible = _visible(setting)
    with children([("fill", kind, most, step)], {**environment, **visible}) as [child]:
        return int(child.line()["held_mib"])


def _visible(setting: Setting) -> dict[str, str]:
    with opened(setting) as source:
        return {"CUDA_VISIBLE_DEVICES": first_gpu(source).uuid}


def shares(setting: Setting) -> Figures:
    """Let eight programs allocate an eighth each at once: of all memory, and of the usable memory."""
    with opened(setting) as source:
        gpu = first_gpu(source)
    figures = {
        name: _fill_all(setting, gpu.uuid, whole // SHARES)
        for name, whole in (("of_total", gpu.memory_mib), ("of_usable", gpu.usable_mib))
    }
    return {"reserved_mib": gpu.reserved_mib, **figures}


def _fill_all(setting: Setting, uuid: str, share: int) -> Figures:
    environments = [
        {"CUDA_VISIBLE_DEVICES": uuid}
        | (_limited(setting, share, f"share-{share}-{number}") if setting.limiter is not None else {})
        for number in range(SHARES)
    ]
    program = ("fill", "cuMemAlloc", str(share), str(STEP_MIB // 2))
    with children([program] * SHARES, environments) as running:
        held = [int(child.line()["held_mib"]) for child in running]
        for child in running:
            child.go()
        refused = [child.line()["refused"] for child in running]
    return {"share_mib": share, "held_mib": held, "refused": refused}


def throughput(setting: Setting) -> Figures:
    """Measure how fast 1, 2, 4 and 8 programs fill memory at once."""
    visible, figures = _visible(setting), {}
    for sharers in SHARERS:
        with children([("busy", str(setting.seconds))] * sharers, visible) as running:
            for child in running:
                child.line()
            for child in running:
                child.go()
            each = [float(child.line()["mib_per_s"]) for child in running]
        figures[str(sharers)] = {"mib_per_s": [round(one) for one in each], "sum": round(sum(each))}
    single = figures["1"]["sum"]
    ratios = {name: round(figure["sum"] / single, 3) for name, figure in figures.items()} if single else {}
    return {"sharers": figures, "sum_to_one_sharer": ratios}
