"""What Kueue counts for pods and Jobs, each by what docs/operating/kueue.md says about it."""

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import LABEL, labelled_pod
from tests.control_plane.kueue.support import QUEUE_LABEL, delete_jobs

GPUS = 5
"""One more than the page's Configuration has lines for."""
HALF = {LABEL: "0.500"}


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


def job(queue, limits, *, pods=2, labels=None):
    """A Job of pods of half a GPU."""
    pod = labelled_pod("main", "0.500", restartPolicy="Never")
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    template = {"metadata": {"labels": {**HALF, **(labels or {})}}, "spec": pod["spec"]}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    metadata = {"name": "job", "labels": {QUEUE_LABEL: queue} if queue else {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def test_a_job_as_a_whole_starts_when_all_its_pods_fit(control_plane, team, queue):
    team.api.create(job(queue, {"nvidia.com/gpu.shared": "4"}, pods=2 * GPUS + 1), team.namespace)
    eventually(lambda: "insufficient" in team.why_not("job"), "it does not fit")
    assert team.api.list("Pod", team.namespace) == []
    delete_jobs(control_plane, team.namespace)
    team.api.create(job(queue, {"nvidia.com/gpu.shared": "4"}, pods=2 * GPUS), team.namespace)
    eventually(lambda: len(team.running()) == 2 * GPUS, "all its pods run")
