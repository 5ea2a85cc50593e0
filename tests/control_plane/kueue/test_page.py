"""docs/operating/kueue.md, followed as it is written."""

import pytest
import yaml

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from tests.control_plane.kueue import page
from tests.control_plane.kueue.support import MEMORY, SLICES, delete_jobs, is_gated, reserved, slices_of

TEAM = "team-a"
HALF = {SLICES: 4, MEMORY: 40 * 2**30}
WHOLE = {SLICES: 8, MEMORY: 80 * 2**30}


@pytest.fixture
def api(control_plane):
    return control_plane.api


@pytest.fixture
def followed(control_plane, api, apply, nodes, webhook):
    """The page's queue, with the webhook on two nodes of two GPUs."""
    nodes(*[GpuNode(gpus=2)] * 2)
    webhook()
    apply(page.block("queue"))
    eventually(lambda: control_plane.takes_pods(TEAM), "the namespace takes pods")
    pod = yaml.safe_load(page.block("pod"))
    eventually(lambda: is_gated(api.create(pod, TEAM, dry_run=True)), "Kueue sees to it")
    yield
    delete_jobs(control_plane, TEAM)
    api.delete_all("Pod", TEAM)
    eventually(lambda: not api.list("Pod", TEAM), "the pods are gone")


def running(api):
    """The page's pods with a node."""
    return [pod for pod in api.list("Pod", TEAM) if pod["spec"].get("nodeName")]


@pytest.mark.usefixtures("followed")
def test_a_plain_pod_is_counted_in_slices_and_in_memory(api, apply):
    apply(page.block("pod"))
    [pod] = eventually(lambda: running(api), "it runs")
    assert list(slices_of(pod).values()) == ["4"]
    eventually(lambda: reserved(api, TEAM) == HALF, "Kueue counts exactly its slices")


@pytest.mark.usefixtures("followed")
def test_a_job_as_a_whole_and_a_job_pod_by_pod_are_counted_as_their_pods(control_plane, api, apply):
    whole, pod_by_pod = page.block("jobs").split("---\n")
    apply(whole)
    eventually(lambda: len(running(api)) == 2, "both pods run")
    assert [list(slices_of(pod).values()) for pod in running(api)] == [["4"], ["4"]]
    assert all(name.startswith("nvidia.com/gpu-") for pod in running(api) for name in slices_of(pod))
    eventually(lambda: reserved(api, TEAM) == WHOLE, "Kueue counts exactly their slices")
    delete_jobs(control_plane, TEAM)
    eventually(lambda: reserved(api, TEAM)[SLICES] == 0, "the quota is free again")
    apply(pod_by_pod)
    eventually(lambda: len(running(api)) == 2, "both pods run")
    assert [list(slices_of(pod).values()) for pod in running(api)] == [["2"], ["2"]]
    eventually(lambda: reserved(api, TEAM) == HALF, "Kueue counts exactly their slices")


def job(limits, labels, **annotations):
    """The page's first Job with other limits and other labels on the template."""
    made = yaml.safe_load(page.block("jobs").split("---\n")[0])
    made["spec"]["template"]["metadata"] = {"labels": labels, "annotations": annotations}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


def refusal(api, made):
    """What the API server says about a Job; empty if it takes it."""
    said = api.refusal(made, TEAM)
    return said.partition("denied request: ")[2] or said


FRACTION, GPU_MEMORY = {"clearml-injector/fraction": "0.500"}, {"clearml-injector/gpu-memory": "20Gi"}
HOW = (
    "Kueue counts this Job by its template: request nvidia.com/gpu.shared: 4 and no nvidia.com/gpu,"
    " or set kueue.x-k8s.io/queue-name only on the template"
)
ELSEWHERE = "Kueue cannot count this share in a Job: set kueue.x-k8s.io/queue-name only on the template"
OTHERS = {
    "the label only": (job({}, FRACTION), HOW),
    "a whole GPU": (job({"nvidia.com/gpu": "1"}, FRACTION), HOW),
    "too few slices": (job({"nvidia.com/gpu.shared": "1"}, FRACTION), HOW),
    "both": (job({"nvidia.com/gpu.shared": "4", "nvidia.com/gpu": "1"}, FRACTION), HOW),
    "memory": (job({"nvidia.com/gpu.shared": "2"}, GPU_MEMORY), ELSEWHERE),
    "no such fraction": (job({}, {"clearml-injector/fraction": "0.5"}), ELSEWHERE),
}


@pytest.mark.usefixtures("followed")
def test_every_other_job_is_refused_with_a_line_that_says_what_to_write(api, apply):
    apply(page.block("policy of jobs"))
    eventually(lambda: refusal(api, OTHERS["the label only"][0]), "the policy is in effect")
    for name, (made, said) in OTHERS.items():
        found = refusal(api, made)
        assert said in found, name
        assert len(found) <= 200, name
    several = job({"nvidia.com/gpu.shared": "4"}, FRACTION, **{"clearml-injector/gpus": "2"})
    assert HOW in refusal(api, several)
    assert refusal(api, job({"nvidia.com/gpu": "1"}, {})) == "", "a Job without our label is not ours"
    apply(page.block("jobs"))
