"""Run with `python -m bench.gpu`: what only a machine with a GPU can show, as lines of JSON.

It needs NVIDIA's driver, this checkout and what `requirements/` lists: no cluster, no network. Each stage
runs, or its line says why it cannot. Exit status 1: a stage had a wrong result.
"""

from __future__ import annotations

import platform
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bench.gpu import driver, node, sharing
from bench.gpu.stages import Setting, Stage, run_stages

DRIVER = Path("/sys/module/nvidia/version")
STAGES = (
    Stage("nvml", driver.nvml, "does the agent read the same figures as nvidia-smi prints?"),
    Stage("cdi", node.cdi, "does NVIDIA's generator name each card for the agent?"),
    Stage("agent", node.agent, "does the agent offer eight slices of each card, with the right limits?"),
    Stage("limiter", sharing.limiter, "which allocations does the limiter count?"),
    Stage(
        "shares", sharing.shares, "do eight full shares fit, with and without the driver's reserved memory?"
    ),
    Stage("usage", driver.usage, "does the agent report the same memory of a process as nvidia-smi?"),
    Stage("xid", driver.xid, "is a program's fault reported, and the card still offered?"),
    Stage("throughput", sharing.throughput, "how fast are 1, 2, 4 and 8 sharers together?"),
)


def main(  # noqa: PLR0913, PLR0917 - each is an option of the command
    limiter: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The limiter's library: libvgpu.so."),
    ] = None,
    nvidia_ctk: Annotated[str, typer.Option(help="NVIDIA's nvidia-ctk.")] = "nvidia-ctk",
    nvidia_smi: Annotated[str, typer.Option(help="NVIDIA's nvidia-smi.")] = "nvidia-smi",
    driver_root: Annotated[Path, typer.Option(help="Root of the driver's files.")] = Path("/"),
    seconds: Annotated[float, typer.Option(min=0.1, help="For each number of sharers.")] = 5.0,
    stages: Annotated[list[str] | None, typer.Option("--stage", help="Only this one.")] = None,
) -> None:
    """Print a line about the machine, then one for each stage."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="gpu-") as scratch:
        setting = Setting(Path(scratch), limiter, nvidia_ctk, nvidia_smi, seconds, driver_root)
        print(msgspec.json.encode(_machine()).decode(), flush=True)
        chosen = [stage for stage in STAGES if not stages or stage.name in stages]
        for line in run_stages(chosen, setting):
            print(msgspec.json.encode(line).decode(), flush=True)
            failed |= line.status == "failed"
    raise typer.Exit(int(failed))


def _machine() -> dict[str, str]:
    """Return the facts that figures depend on."""
    return {
        "product": _version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "driver": DRIVER.read_text().strip() if DRIVER.exists() else "none is loaded",
    }


def _version() -> str:
    """Return the product's version; a checkout beside carried wheels is not installed."""
    try:
        return version("gpu-fraction-injector")
    except PackageNotFoundError:
        return "a checkout"


if __name__ == "__main__":
    typer.run(main)
