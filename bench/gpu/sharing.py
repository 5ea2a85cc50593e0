"""Stages with several tenants of one GPU: whether shares fit, and what one suffers from another."""

from __future__ import annotations

from bench.gpu.child import REFUSALS
from bench.gpu.driver import gpu_to_test, whole
from bench.gpu.limits import STEP_MIB, limited
from bench.gpu.processes import children
from bench.gpu.stages import Figures, Setting, WrongError

SHARES = 8
HOLDS, FURTHER = 0.6, 0.1
"""Parts of its share that a victim holds, and allocates while the other is refused."""


def shares(setting: Setting) -> Figures:
    """Let eight programs allocate an eighth each at once: of all memory, and of the usable memory."""
    gpu = gpu_to_test(setting)
    figures: dict[str, Figures] = {}
    for name, mib in (("of_total", gpu.memory_mib // SHARES), ("of_usable", gpu.usable_mib // SHARES)):
        each = [limited(setting, gpu, mib) if setting.limiter else whole(gpu) for _ in range(SHARES)]
        with children(("fill", "cuMemAlloc", str(mib), str(STEP_MIB), "1"), *each) as running:
            held = [int(child.line()["held_mib"]) for child in running]
            for child in running:
                child.go()
            refused = [child.line()["refused"] for child in running]
        figures[name] = {"share_mib": mib, "held_mib": held, "refused": refused}
    return {"reserved_mib": gpu.reserved_mib, **figures}


def tenants(setting: Setting) -> Figures:
    """Measure a tenant alone, and while another one fills its own share and is refused a thousand times."""
    gpu = gpu_to_test(setting)
    share, seconds = gpu.usable_mib // SHARES, str(setting.seconds)
    held, further = str(int(share * HOLDS)), int(share * FURTHER)
    with children(("victim", held, str(further), seconds), limited(setting, gpu, share)) as [victim]:
        victim.line()
        victim.go()
        alone = victim.line()
        with children(("hog", str(2 * share), seconds), limited(setting, gpu, share)) as [hog]:
            hog.line()
            hog.go()
            victim.go()
            beside, other = victim.line(), hog.line()
    figures = {
        "share_mib": share,
        "alone": alone,
        "beside": beside,
        "throughput_ratio": round(beside["mib_per_s"] / alone["mib_per_s"], 3),
        "other": other,
    }
    if beside["further_mib"] < further or other["held_mib"] > share or other["refused"] < REFUSALS:
        raise WrongError("one tenant took memory of the other", figures)
    return figures
