"""Run with `python -m bench.gpu`: what only a machine with a GPU can show, as lines of JSON.

It needs NVIDIA's driver, this checkout and what `requirements/runtime.txt` lists: no cluster, no network.
Each stage is a process of its own: one that crashes or hangs ends no other. Exit status 1: a stage failed.
"""

from __future__ import annotations

import os
import platform
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import distributions
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer

from bench.gpu.stages import FAILED, Setting, print_line, run_alone

NAME = "gpu-fraction-injector"
"""A checkout beside carried wheels is not installed."""
DRIVER = Path("/sys/module/nvidia/version")
STAGES: Mapping[str, str] = {
    "nvml": "driver",
    "usage": "driver",
    "cdi": "node",
    "agent": "node",
    "limiter": "limits",
    "accuracy": "limits",
    "escapes": "limits",
    "shares": "sharing",
    "tenants": "sharing",
    "overhead": "speed",
    "startup": "speed",
    "throughput": "speed",
    "driver_limits": "limits",
    "xid": "driver",
}
"""The module of each stage, in their order: a fault comes last."""
STAGE_SECONDS, ALL_SECONDS = 120.0, 450.0
UNLISTED = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")
"""Folders of driver libraries that `ldconfig` may not list."""


def main(  # noqa: PLR0913, PLR0917 - each is an option of the command
    limiter: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, resolve_path=True, help="The limiter's library: libvgpu.so."
        ),
    ] = None,
    nvidia_ctk: Annotated[str, typer.Option(help="NVIDIA's nvidia-ctk.")] = "nvidia-ctk",
    nvidia_smi: Annotated[str, typer.Option(help="NVIDIA's nvidia-smi.")] = "nvidia-smi",
    driver_root: Annotated[Path, typer.Option(help="Root of the driver's files.")] = Path("/"),
    cgroups: Annotated[Path, typer.Option(help="Root of the control groups.")] = Path("/sys/fs/cgroup"),
    seconds: Annotated[float, typer.Option(min=0.1, help="For each speed.")] = 3.0,
    stages: Annotated[list[str] | None, typer.Option("--stage", help="Only this one.")] = None,
) -> None:
    """Print a line about the machine, then one for each stage."""
    if unknown := set(stages or ()) - STAGES.keys():
        raise typer.BadParameter(f"there is no stage {', '.join(unknown)}: {', '.join(STAGES)}")
    given = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    os.environ["LD_LIBRARY_PATH"] = ":".join([*given, *filter(os.path.isdir, UNLISTED)])
    end, failed = time.monotonic() + ALL_SECONDS, False
    with tempfile.TemporaryDirectory(prefix="gpu-") as scratch:
        setting = Setting(Path(scratch), limiter, nvidia_ctk, nvidia_smi, seconds, driver_root, cgroups)
        print_line(_machine())
        for name in stages or STAGES:
            failed |= _has_failed(name, setting, min(STAGE_SECONDS, end - time.monotonic()))
    raise typer.Exit(int(failed))


def _has_failed(name: str, setting: Setting, seconds: float) -> bool:
    """Run a stage in a process of its own; whether it failed."""
    if seconds <= 0:
        why = f"the stages before it took {ALL_SECONDS:.0f} s"
        print_line({"stage": name, "status": "cannot", "why": why})
        return False
    process = get_context("spawn").Process(
        target=run_alone, args=(name, f"bench.gpu.{STAGES[name]}", setting)
    )
    process.start()
    try:
        process.join(seconds)
    finally:
        ended = process.exitcode
        if ended is None:
            with suppress(ProcessLookupError):  # It has no session of its own yet, and started nothing.
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
            process.join()
    if ended is None or ended not in {0, FAILED}:
        why = f"it took more than {seconds:.0f} s" if ended is None else f"its process ended with {ended}"
        print_line({"stage": name, "status": "failed", "why": why})
    return ended != 0


def _machine() -> dict[str, str]:
    """Return the facts that figures depend on."""
    return {
        "product": next((each.version for each in distributions(name=NAME)), "a checkout"),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "driver": DRIVER.read_text().strip() if DRIVER.exists() else "none is loaded",
    }


if __name__ == "__main__":
    typer.run(main)
