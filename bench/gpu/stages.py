"""What stages are given, and how one runs or states why it cannot."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Figures = Mapping[str, Any]
Status = Literal["ran", "cannot", "failed"]
FAILED = 10
"""Exit status of a stage that failed and said so."""
MAX_WHY = 400
"""Characters of a reason."""


class CannotError(Exception):
    """Something that a stage needs is missing; the text says what."""


class WrongError(Exception):
    """A stage ran, and had a wrong result; the text says what."""

    def __init__(self, why: str, figures: Figures | None = None) -> None:
        super().__init__(why)
        self.figures = figures or {}


@dataclass(frozen=True, slots=True)
class Setting:
    """The options of the command.

    Attributes:
        limiter: The limiter's library, the file that is preloaded; None skips its stages.
        nvidia_ctk: NVIDIA's generator of CDI specifications.
        nvidia_smi: NVIDIA's command.
        seconds: For which each speed is measured.
        driver_root: Root of the driver's files.
        cgroups: Root of the control groups.
        scratch: A folder for files of the stages.
    """

    scratch: Path
    limiter: Path | None = None
    nvidia_ctk: str = "nvidia-ctk"
    nvidia_smi: str = "nvidia-smi"
    seconds: float = 5.0
    driver_root: Path = Path("/")
    cgroups: Path = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Line:
    """The result of a stage."""

    stage: str
    status: Status
    seconds: float
    why: str = ""
    figures: Figures = field(default_factory=dict)


def run_alone(name: str, module: str, setting: Setting) -> None:
    """Run a stage in this process, which ends with `FAILED` if it failed, in a session of its own."""
    os.setsid()
    line = run(name, module, setting)
    print_line(asdict(line))
    sys.exit(FAILED if line.status == "failed" else 0)


def print_line(line: Mapping[str, Any]) -> None:
    """Print JSON at once."""
    print(json.dumps(line), flush=True)


def run(name: str, module: str, setting: Setting) -> Line:
    """Run the function of a stage, which is found only now: a module that is broken ends no other stage."""
    begun = time.monotonic()
    status, why, figures = _run(name, module, setting)
    return Line(name, status, round(time.monotonic() - begun, 3), why[:MAX_WHY], figures)


def _run(name: str, module: str, setting: Setting) -> tuple[Status, str, Figures]:
    try:
        return "ran", "", getattr(import_module(module), name)(setting)
    except CannotError as error:
        return "cannot", str(error), {}
    except WrongError as error:
        return "failed", str(error), error.figures
    except Exception as error:  # noqa: BLE001 - a stage that breaks says so, as the others do
        return "failed", f"{type(error).__name__}: {error}", {}
