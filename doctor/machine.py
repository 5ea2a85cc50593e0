"""Judges a machine whose queues are run without Kubernetes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from baremetal.machine import Machine
from baremetal.task import Task
from doctor.finding import Diagnosis, ReportLine, lines_of

MAX_NAMED = 5
LEAST_FREE_BYTES = 2**30


def check_machine(
    machine: Machine | None, *, runs: bool, running: Sequence[Task], waiting: Sequence[Task], free_bytes: int
) -> list[ReportLine]:
    """Return one line per check.

    Args:
        machine: what the last runner said of the machine; None if there never was one.
        runs: whether a runner works.
        running: tasks that run.
        waiting: tasks that wait.
        free_bytes: free bytes of the disk with tasks and logs.
    """
    if machine is None:
        return lines_of("runner", [_NO_RUNNER])
    return [
        *lines_of("runner", [Diagnosis("ok", "a runner works") if runs else _NO_RUNNER]),
        *lines_of("cards", _cards(machine, running)),
        *lines_of("limits", _limits(machine)),
        *lines_of("queues", _queues(machine, waiting)),
        *lines_of("disk", [_disk(free_bytes)]),
    ]


_NO_RUNNER = Diagnosis("failed", "no runner works", "start fraction-injector machine run, or its service")


def _disk(free_bytes: int) -> Diagnosis:
    free = f"{free_bytes >> 20} MiB are free for tasks and logs"
    if free_bytes >= LEAST_FREE_BYTES:
        return Diagnosis("ok", free)
    return Diagnosis("failed", free, "make room: on a full disk nothing starts")


def _cards(machine: Machine, running: Sequence[Task]) -> Iterator[Diagnosis]:
    for uuid, fault in machine.faults.items():
        numbers = [task.number for task in running if uuid in task.gpus]
        named = ", ".join(map(str, numbers[:MAX_NAMED])) + ("" if len(numbers) <= MAX_NAMED else " and more")
        advice = (
            f"look at tasks {named}: they may hang; cancel them, then reset it" if numbers else "reset it"
        )
        yield Diagnosis("failed", fault, advice)
    if not machine.faults:
        yield Diagnosis("ok", f"all {len(machine.cards)} GPUs are in service")


def _limits(machine: Machine) -> Iterator[Diagnosis]:
    yield from (Diagnosis("warning", each) for each in machine.warnings)
    if not machine.warnings:
        yield Diagnosis("ok", "tasks are limited to their shares")


def _queues(machine: Machine, waiting: Sequence[Task]) -> Iterator[Diagnosis]:
    served = {queue.name for queue in machine.queues}
    lost = Counter(task.submission.queue for task in waiting if task.submission.queue not in served)
    for queue, count in sorted(lost.items()):
        advice = "start `machine run` with that queue too, or cancel them"
        yield Diagnosis("warning", f'queue "{queue}" is not served, and {count} tasks wait in it', advice)
    if not lost:
        yield Diagnosis("ok", "every queue with tasks is served")
