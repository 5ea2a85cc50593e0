"""What commands say of a machine."""

from baremetal.report import MachineReport, usage
from tests.baremetal.support.machine import cards, task

REPORT = MachineReport(
    name="box", cards=cards(3), slices_per_gpu=8, queues=(("half", "0.5"),), faults={2: "it does not answer"}
)


def test_the_example_uses_two_and_three_quarters_of_three():
    running = [task(1, "dual", (0, 1), 8), task(2, "quarter", (2,), 2), task(3, "half", (2,), 4)]
    assert usage(REPORT, running) == "2.75 of 3 GPUs in use (22 of 24 slices)"
    assert usage(REPORT, []) == "0 of 3 GPUs in use (0 of 24 slices)"


def test_a_machine_is_made_of_what_its_runner_said_and_what_runs():
    machine = REPORT.with_tasks([task(1, "half", (0,), 4)])
    [node] = machine.view().nodes
    assert [(gpu.free, gpu.cordoned) for gpu in node.gpus] == [(4, False), (8, False), (0, True)]
