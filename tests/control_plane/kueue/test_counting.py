"""What Kueue counts for pods and Jobs, each by what docs/operating/kueue.md says about it."""

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually

GPUS = 5
"""One more than the page's Configuration has lines for."""


@pytest.fixture
def queue(team, nodes, webhook):
    """A queue of a whole node of five GPUs."""
    nodes(GpuNode(gpus=GPUS))
    webhook()
    return team.queue(8 * GPUS)


def test_a_pod_on_an_index_without_a_line_waits(team, queue):
    for number in range(GPUS):
        team.pod(f"pod-{number}", queue, "0.875")
    [name] = eventually(lambda: len(team.running()) == GPUS - 1 and team.waiting(), "all others run")
    eventually(lambda: f"nvidia.com/gpu-{GPUS - 1} unavailable" in team.why_not(name), "Kueue says why")
