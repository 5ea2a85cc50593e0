"""A task of a queue, from its submission to its end."""

from __future__ import annotations

from typing import Literal

import msgspec

TaskState = Literal["waiting", "running", "succeeded", "failed", "cancelled", "lost"]
"""`lost`: nobody knows how it ended, or whether it did all its work."""
OVER: tuple[TaskState, ...] = ("succeeded", "failed", "cancelled", "lost")
MAX_SUBMISSION_BYTES = 1024 * 1024
"""Of command, folder and variables together; the kernel starts no larger program either."""
MAX_PRIORITY = 1000
GPUS = "{gpus}"
"""Stands for the numbers of the task's cards in a command of a source."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants to run."""

    queue: str
    command: tuple[str, ...]
    folder: str
    """In which the command starts."""
    env: dict[str, str] = {}
    """Of a source: empty, as its tasks get the runner's."""
    priority: int = 0
    """In its queue; higher ones go first."""
    source_id: str | None = None
    """Names the task where it comes from, such as ClearML; None if it was submitted here."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the store has it. Times are Unix time."""

    number: int = 0
    submission: Submission
    state: TaskState = "waiting"
    attempt: int = 1
    """The latest, or the one that comes."""
    overtaken: int = 0
    """Tasks of later queues that started while this one was the first of its queue and had no room."""
    gpus: tuple[str, ...] = ()
    """UUIDs of its cards."""
    indices: tuple[int, ...] = ()
    """Their numbers; the driver may renumber cards when one is lost, which the next runner notes."""
    slices: int = 0
    """On each card."""
    slices_per_gpu: int = 0
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    """Of its command; minus the signal's number if a signal ended it."""
    note: str = ""
    """One line for its user, such as why it is lost."""
    cancelled: bool = False
    """Whether its user wants it to end."""
