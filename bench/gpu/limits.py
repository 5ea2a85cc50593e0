"""Stages that try limits: what a limiter counts, how exactly, how it is escaped, and the driver's limits."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from agent.gpu import Gpu
from bench.gpu.cuda import KINDS, MIB
from bench.gpu.driver import gpu_to_test, opened, whole
from bench.gpu.processes import Share, children
from bench.gpu.stages import CannotError, Figures, Setting, WrongError

LIMIT_MIB, STEP_MIB = 1024, 64
SETTLE_SECONDS = 1.0
LIMIT, PRELOAD = "CUDA_DEVICE_MEMORY_LIMIT_0", "LD_PRELOAD"
_ENTER = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"')
_JOIN = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')


def limited(setting: Setting, gpu: Gpu, mib: int) -> Share:
    """Return what a container with a share starts in: its own cache, and the limiter as the agent mounts it.

    Raises:
        CannotError: no limiter is named.
    """
    if setting.limiter is None:
        raise CannotError("no limiter's library is named: --limiter FILE")
    environment = {
        **whole(gpu).environment,
        LIMIT: f"{mib}m",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{tempfile.mkdtemp(dir=setting.scratch)}/cache",
        "LIBCUDA_LOG_LEVEL": "0",
    }
    if etc := _preloading(setting.scratch, setting.limiter):
        return Share(environment, (*_ENTER, etc))
    return Share({**environment, PRELOAD: str(setting.limiter)})


@cache
def _preloading(scratch: Path, limiter: Path) -> str | None:
    """Return a copy of /etc in which every program gets the limiter; None where nothing can be mounted."""
    etc = tempfile.mkdtemp(dir=scratch, prefix="etc-")
    subprocess.run(["cp", "-a", "/etc/.", etc], check=False, capture_output=True)
    Path(etc, "ld.so.preload").write_text(f"{limiter}\n")
    ended = subprocess.run([*_ENTER, etc, "true"], check=False, capture_output=True)
    return None if ended.returncode else etc


def limiter(setting: Setting) -> Figures:
    """Allocate up to twice the limit in each way, and record where that fails."""
    gpu = gpu_to_test(setting)
    held = {kind: _held(limited(setting, gpu, LIMIT_MIB), kind=kind) for kind in KINDS}
    by = "/etc/ld.so.preload" if limited(setting, gpu, LIMIT_MIB).command else PRELOAD
    figures = {"preloaded_by": by, "limit_mib": LIMIT_MIB, "held_mib": held}
    if not isinstance(plain := held["cuMemAlloc"], int) or plain > LIMIT_MIB:
        raise WrongError("plain allocations are not limited", figures)
    return figures


def _held(share: Share, more: Mapping[str, str] | None = None, *, kind: str = "cuMemAlloc") -> int | str:
    """Return the MiB that a program with further variables could allocate, or how it ended."""
    share = Share({**share.environment, **(more or {})}, share.command)
    try:
        with children(("fill", kind, str(2 * LIMIT_MIB), str(STEP_MIB), str(STEP_MIB)), share) as [child]:
            return int(child.line()["held_mib"])
    except RuntimeError as error:
        return str(error)


def accuracy(setting: Setting) -> Figures:
    """Fill shares of three sizes to the last MiB, and ask the driver what that is with the context."""
    gpu = gpu_to_test(setting)
    sizes = (LIMIT_MIB, gpu.usable_mib // 8, gpu.usable_mib // 2)
    figures = {str(mib): _filled(setting, gpu, mib) for mib in sizes}
    if over := [mib for mib in sizes if figures[str(mib)]["held_mib"] > mib]:
        raise WrongError(f"a program got more than its limit of {over[0]} MiB", figures)
    return figures


def _filled(setting: Setting, gpu: Gpu, mib: int) -> dict[str, Any]:
    """Return what a program allocated, and what the driver counts for it: its context too."""
    with opened(setting) as source:
        before = source.use_of(gpu.uuid).used_mib
        share = limited(setting, gpu, mib)
        with children(("fill", "cuMemAlloc", str(2 * mib), str(STEP_MIB), "1"), share) as [child]:
            held = int(child.line()["held_mib"])
            time.sleep(SETTLE_SECONDS)
            used = source.use_of(gpu.uuid).used_mib - before
            child.go()
            seen = child.line()["total_mib"]
    by_driver = {
        "used_mib": used,
        "context_mib": used - held,
        "over_percent": round(100 * (used / mib - 1), 2),
    }
    return {"held_mib": held, "program_sees_mib": seen, **by_driver, "counts_context": used <= mib + 1}


def escapes(setting: Setting) -> Figures:
    """Record what programs get that try to get around a limit."""
    gpu = gpu_to_test(setting)
    tries: Mapping[str, Mapping[str, str]] = {
        "none": {},
        "LD_PRELOAD empty": {PRELOAD: ""},
        "its own limit": {LIMIT: f"{2 * LIMIT_MIB}m"},
        "no limit": {LIMIT: ""},
    }
    figures = {name: _held(limited(setting, gpu, LIMIT_MIB), more) for name, more in tries.items()}
    if not isinstance(alone := figures["none"], int) or alone > LIMIT_MIB:
        raise WrongError("the limit does not hold for a program that tries nothing", figures)
    return {"limit_mib": LIMIT_MIB, **figures}


def driver_limits(setting: Setting) -> Figures:
    """Have the driver limit a control group, as NVIDIA's toolkit does, and fill memory in it."""
    with opened(setting) as source:
        gpu = gpu_to_test(setting)
        if why := source.why_no_driver_limits():
            raise CannotError(why)
        with _group(setting.cgroups) as group:
            device = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            wanted = pynvml.c_nvmlSetMemoryLimits_v1_t(str(group).encode(), 0, LIMIT_MIB * MIB)
            pynvml.nvmlDeviceSetMemoryLimits_v1(device, wanted)
            share = Share(whole(gpu).environment, (*_JOIN, str(group)))
            with children(("fill", "cuMemAlloc", str(2 * LIMIT_MIB), str(STEP_MIB), "1"), share) as [child]:
                held = int(child.line()["held_mib"])
    figures = {"limit_mib": LIMIT_MIB, "held_mib": held}
    if held > LIMIT_MIB:
        raise WrongError("the driver does not keep its limit", figures)
    return figures


@contextmanager
def _group(cgroups: Path) -> Iterator[Path]:
    """Have a control group while the context is open."""
    group = cgroups / f"gpu-proof-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise CannotError(f"{group} cannot be made: {error.strerror}") from error
    try:
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()
