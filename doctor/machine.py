"""Judges a machine whose queues are run without Kubernetes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from baremetal.machine import MachineReport
from baremetal.task import Task
from doctor.finding import Diagnosis, ReportLine, lines_of

MAX_NAMED = 5


def check_machine(
    report: MachineReport | None, *, runs: bool, running: Sequence[Task], waiting: Sequence[Task]
) -> list[ReportLine]:
    """Return one line per check.

    Args:
        report: what the last runner said of the machine; None if there never was one.
        runs: whether a runner works.
        running: tasks that run.
        waiting: tasks that wait.
    """
    if report is None:
        return lines_of("runner", [_NO_RUNNER])
    return [
        *lines_of("runner", [Diagnosis("ok", "a runner works") if runs else _NO_RUNNER]),
        *lines_of("cards", _cards(report, running)),
        *lines_of("limits", _limits(report)),
        *lines_of("queues", _queues(report, waiting)),
    ]


_NO_RUNNER = Diagnosis("failed", "no runner works", "start fraction-injector run-queues, or its service")


def _cards(report: MachineReport, running: Sequence[Task]) -> Iterator[Diagnosis]:
    for index, why in sorted(report.faults.items()):
        numbers = [task.number for task in running if index in task.indices]
        named = ", ".join(map(str, numbers[:MAX_NAMED])) + ("" if len(numbers) <= MAX_NAMED else " and more")
        advice = (
            f"look at tasks {named}: they may hang; cancel them, then reset it" if numbers else "reset it"
        )
        yield Diagnosis("failed", f"GPU {index} is out of service: {why}", advice)
    if not report.faults:
        yield Diagnosis("ok", f"all {len(report.cards)} GPUs are in service")


def _limits(report: MachineReport) -> Iterator[Diagnosis]:
    yield from (Diagnosis("warning", each) for each in report.warnings)
    if not report.warnings:
        yield Diagnosis("ok", "tasks are limited to their shares")


def _queues(report: MachineReport, waiting: Sequence[Task]) -> Iterator[Diagnosis]:
    lost = Counter(task.submission.queue for task in waiting if task.submission.queue not in report.queues)
    for queue, count in sorted(lost.items()):
        advice = "start run-queues with that queue too, or cancel them"
        yield Diagnosis("warning", f'queue "{queue}" is not served, and {count} tasks wait in it', advice)
    if not lost:
        yield Diagnosis("ok", "every queue with tasks is served")
