"""Stages, which run or state why they cannot, and the lines with their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

Figures = Mapping[str, Any]
Status = Literal["ran", "cannot", "failed"]
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
        seconds: For which throughput is measured with each number of sharers.
        driver_root: Root of the driver's files.
        scratch: A folder for files of the stages.
    """

    scratch: Path
    limiter: Path | None = None
    nvidia_ctk: str = "nvidia-ctk"
    nvidia_smi: str = "nvidia-smi"
    seconds: float = 5.0
    driver_root: Path = Path("/")


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a stage."""

    stage: str
    status: Status
    seconds: float
    why: str = ""
    figures: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Stage:
    """One question to a node with a GPU."""

    name: str
    run: Callable[[Setting], Figures]
    asks: str
    """The question, for people."""


def run_stages(stages: Iterable[Stage], setting: Setting) -> Iterator[Line]:
    """Run stages one after the other; a failure does not stop the others."""
    for stage in stages:
        begun = time.monotonic()
        status, why, figures = _run(stage, setting)
        seconds = round(time.monotonic() - begun, 3)
        yield Line(stage.name, status, seconds, why[:MAX_WHY], dict(figures))


def _run(stage: Stage, setting: Setting) -> tuple[Status, str, Figures]:
    try:
        return "ran", "", stage.run(setting)
    except CannotError as error:
        return "cannot", str(error), {}
    except WrongError as error:
        return "failed", str(error), error.figures
    except Exception as error:  # noqa: BLE001 - a stage that breaks must not hide the others' figures
        return "failed", f"{type(error).__name__}: {error}", {}
