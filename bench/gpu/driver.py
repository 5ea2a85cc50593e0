"""Stages that compare the agent's readings of the driver with NVIDIA's own command."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agent.gpu import Gpu, GpuSourceError, HealthEvent
from agent.nvml import Nvml
from agent.settings import APPLICATION_XIDS
from bench.gpu.processes import Share, children
from bench.gpu.stages import CannotError, Figures, Setting, WrongError

ROUNDING_MIB = 1
HELD_MIB = 512
SETTLE_SECONDS, XID_SECONDS = 5.0, 30.0
SMI_SECONDS = 60.0
FIELDS = ("index", "uuid", "name", "memory.total", "memory.reserved")


@contextmanager
def opened(setting: Setting) -> Iterator[Nvml]:
    """Open the driver while the context is open.

    Raises:
        CannotError: there is no driver.
    """
    try:
        source = Nvml(cgroups=setting.cgroups, driver_root=str(setting.driver_root))
    except GpuSourceError as error:
        raise CannotError(str(error)) from error
    try:
        yield source
    finally:
        source.close()


def first_gpu(source: Nvml) -> Gpu:
    """Return the GPU to test: the first that is not in MIG mode.

    Raises:
        CannotError: there is none.
    """
    gpu = next((gpu for gpu in source.list_gpus() if not gpu.mig), None)
    if gpu is None:
        raise CannotError("there is no GPU out of MIG mode")
    return gpu


def gpu_to_test(setting: Setting) -> Gpu:
    """Return the same where nothing else is asked of the driver."""
    with opened(setting) as source:
        return first_gpu(source)


def whole(gpu: Gpu) -> Share:
    """Return what a program without a limit is started in."""
    return Share({"CUDA_VISIBLE_DEVICES": gpu.uuid})


def ask_smi(setting: Setting, what: str) -> list[list[str]]:
    """Return the rows of a query of nvidia-smi.

    Raises:
        CannotError: it is not there, fails or prints nothing.
    """
    program = shutil.which(setting.nvidia_smi)
    if program is None:
        raise CannotError(f"there is no {setting.nvidia_smi} on PATH")
    command = [program, what, "--format=csv,noheader,nounits"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    rows = [[each.strip() for each in row] for row in csv.reader(io.StringIO(ended.stdout)) if row]
    if ended.returncode or not rows:
        raise CannotError(f"{program} {what} prints nothing: {ended.stderr.strip() or ended.returncode}")
    return rows


def nvml(setting: Setting) -> Figures:
    """Compare index, UUID, model, memory and reserved memory."""
    with opened(setting) as source:
        gpus = source.list_gpus()
        why_none = source.why_no_driver_limits()
    seen = [[str(gpu.index), gpu.uuid, gpu.model, str(gpu.memory_mib), str(gpu.reserved_mib)] for gpu in gpus]
    figures = {"gpus": seen, "driver_limits": why_none or "offered"}
    printed = ask_smi(setting, f"--query-gpu={','.join(FIELDS)}")
    differing = [
        f"GPU {ours[0]}: {field} is {mine}, nvidia-smi says {theirs}"
        for ours, row in zip(seen, printed, strict=False)
        for field, mine, theirs in zip(FIELDS, ours, row, strict=False)
        if not _agree(mine, theirs)
    ]
    if len(seen) != len(printed):
        differing.append(f"{len(seen)} GPUs, nvidia-smi says {len(printed)}")
    if differing:
        raise WrongError("; ".join(differing), {**figures, "nvidia_smi": printed})
    return figures


def _agree(ours: str, theirs: str) -> bool:
    """Whether two values agree: amounts are rounded, and an old driver does not state reserved memory."""
    if ours.isdecimal() and theirs.isdecimal():
        return abs(int(ours) - int(theirs)) <= ROUNDING_MIB
    return ours == theirs or theirs.startswith("[N/A")


def usage(setting: Setting) -> Figures:
    """Compare the memory of a process that holds some."""
    with opened(setting) as source:
        gpu = first_gpu(source)
        with children(("fill", "cuMemAlloc", str(HELD_MIB), "64", "64"), whole(gpu)) as [child]:
            child.line()
            time.sleep(SETTLE_SECONDS)
            by_nvml = {each.pid: each.used_mib for each in source.use_of(gpu.uuid).processes}
            printed = ask_smi(setting, "--query-compute-apps=pid,used_memory")
    by_smi = {int(pid): used for pid, used in printed}
    figures = {"pid": child.pid, "asked_mib": HELD_MIB, "nvml": by_nvml, "nvidia_smi": by_smi}
    if not by_nvml:
        raise WrongError("the driver names no process: is this a container without hostPID?", figures)
    if by_nvml.keys() != by_smi.keys():
        raise WrongError("NVML and nvidia-smi name different processes", figures)
    return figures


def xid(setting: Setting) -> Figures:
    """Make a program fault, and check that its Xid is reported and the card is still offered."""
    with opened(setting) as source:
        gpu = first_gpu(source)
        with children(("fault",), whole(gpu)) as [child]:
            result = child.line()
            event = _next_event(source)
        condition = source.condition_of(gpu.uuid)
    figures = {
        "cuda": result["refused"],
        "xid": event.xid if event is not None else None,
        "of_our_gpu": event is not None and event.uuid == gpu.uuid,
        "unhealthy": condition.why_unhealthy,
    }
    if not result["refused"]:
        raise WrongError("a write to address 16 was allowed", figures)
    if event is None:
        raise WrongError(f"no Xid was reported within {XID_SECONDS:.0f} s", figures)
    if event.xid not in APPLICATION_XIDS or condition.why_unhealthy is not None:
        raise WrongError("an error of a program makes the card unhealthy", figures)
    return figures


def _next_event(source: Nvml) -> HealthEvent | None:
    end = time.monotonic() + XID_SECONDS
    while time.monotonic() < end:
        if (event := source.wait_for_event(1.0)) is not None:
            return event
    return None
