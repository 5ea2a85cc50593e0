"""What doctor says of a machine without Kubernetes."""

import msgspec

from baremetal.machine import Machine
from doctor.machine import check_machine
from tests.baremetal.support.machine import cards, served, submission, task

WELL = Machine(name="box", cards=cards(2), slices_per_gpu=8, queues=served("half=0.5"))
ILL = msgspec.structs.replace(
    WELL,
    faults={"GPU-1": "GPU 1 is out of service: it does not answer"},
    warnings=("there is no library: a process can use all memory of its GPU",),
)


def said(report, *, runs=True, running=(), waiting=(), free_bytes=2**31):
    seen = {"runs": runs, "running": running, "waiting": waiting, "free_bytes": free_bytes}
    return [(line.level, line.text) for line in check_machine(report, **seen)]


def test_a_machine_that_is_well_has_a_line_for_each_check():
    assert said(WELL, waiting=[task(queue="half")]) == [
        ("ok", "a runner works"),
        ("ok", "all 2 GPUs are in service"),
        ("ok", "tasks are limited to their shares"),
        ("ok", "every queue with tasks is served"),
        ("ok", "2048 MiB are free for tasks and logs"),
    ]


def test_a_lost_card_is_named_with_the_tasks_on_it():
    running = [task(number, "half", (1,)) for number in range(1, 8)] + [task(9, "half", (0,))]
    advice = "look at tasks 1, 2, 3, 4, 5 and more: they may hang; cancel them, then reset it"
    assert said(ILL, running=running)[1] == (
        "failed",
        f"GPU 1 is out of service: it does not answer -- {advice}",
    )
    assert said(ILL)[1] == ("failed", "GPU 1 is out of service: it does not answer -- reset it")


def test_what_is_unlimited_and_queues_that_nobody_serves_are_warnings():
    waiting = [task(number, submission=submission("gone")) for number in range(2)]
    advice = "start `machine run` with that queue too, or cancel them"
    assert said(ILL, waiting=waiting)[2:4] == [
        ("warning", "there is no library: a process can use all memory of its GPU"),
        ("warning", f'queue "gone" is not served, and 2 tasks wait in it -- {advice}'),
    ]


def test_a_machine_without_a_runner_or_with_a_full_disk_fails_that_check():
    start = "no runner works -- start fraction-injector machine run, or its service"
    assert said(None) == [("failed", start)]
    assert said(WELL, runs=False)[0] == ("failed", start)
    full = "3 MiB are free for tasks and logs -- make room: on a full disk nothing starts"
    assert said(WELL, free_bytes=3 << 20)[-1] == ("failed", full)
