"""Kueue's flavors with nodeLabels: Kueue adds a node selector when a pod's GPU was chosen already."""

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.kueue import page
from tests.control_plane.kueue.support import QUEUE_LABEL

SMALL = GpuNode(gpus=1, memory_mib=40960, labels={"pool": "small"})
LARGE = GpuNode(gpus=2, memory_mib=81920, labels={"pool": "large"})
POOLS = {"small": {"pool": "small"}, "large": {"pool": "large"}}
SAID = (
    "nodeSelector: the GPU is chosen before Kueue chooses a flavor:"
    " add the label pool of the flavor that you want"
)


@pytest.fixture
def small_and_large(nodes, webhook):
    """Names of a node with one GPU and one with two larger GPUs."""
    names = nodes(SMALL, LARGE)
    webhook()
    return names


@pytest.fixture
def policy(control_plane, team, apply):
    """The page's policy, in effect in the test's namespace."""
    api = control_plane.api
    api.patch("Namespace", team.namespace, {"metadata": {"labels": {"kueue-flavors": "pool"}}})
    apply(page.block("policy of flavors"))
    eventually(lambda: refusal(team), "the policy is in effect")


def refusal(team):
    """What the API server says about a pod in a queue without a node selector; empty if it takes it."""
    pod = labelled_pod("probe")
    pod["metadata"]["labels"][QUEUE_LABEL] = "any"
    return team.api.refusal(pod, team.namespace).partition("denied request: ")[2]


@pytest.mark.usefixtures("policy")
def test_a_pod_names_its_flavor_and_runs_there(small_and_large, team):
    assert refusal(team) == SAID
    queue = team.queue(16, flavors=POOLS)
    for pool, node in zip(("large", "small"), reversed(small_and_large), strict=True):
        team.pod(f"in-{pool}", queue, nodeSelector={"pool": pool})
        eventually(lambda: f"in-{pool}" in team.running(), "it runs")  # noqa: B023 - called before the next
        assert team.api.get("Pod", f"in-{pool}", team.namespace)["spec"]["nodeName"] == node


def test_flavors_by_the_memory_of_cards_follow_the_card_that_the_webhook_chose(small_and_large, team):
    flavors = {str(mib): {"nvidia.com/gpu.memory": str(mib)} for mib in (40960, 81920)}
    queue = team.queue(16, flavors=flavors)
    made = [team.pod(f"pod-{number}", queue, "0.625") for number in range(3)]
    eventually(lambda: len(team.running()) == len(made), "all run, each in its flavor")


def test_pods_of_a_job_are_placed_in_the_flavor_that_kueue_chose(small_and_large, team):
    queue = team.queue(16, flavors=POOLS)
    template = labelled_pod("task", "0.500", restartPolicy="Never")
    template["metadata"] = {"labels": template["metadata"]["labels"]}
    template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu.shared": "4"}}
    spec = {"parallelism": 4, "completions": 4, "suspend": True, "template": template}
    metadata = {"name": "job", "labels": {QUEUE_LABEL: queue}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    team.api.create(job, team.namespace)
    eventually(lambda: len(team.running()) == 2, "as many run as the flavor's nodes hold")
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in team.api.list("Pod", team.namespace)} == {"small"}


def test_a_pod_on_an_index_without_a_line_in_the_pages_configuration_waits(nodes, webhook, team):
    gpus = 5
    nodes(GpuNode(gpus=gpus))
    webhook()
    queue = team.queue(8 * gpus)
    for number in range(gpus):
        team.pod(f"pod-{number}", queue, "0.875")
    [name] = eventually(lambda: len(team.running()) == gpus - 1 and team.waiting(), "all others run")
    eventually(lambda: f"nvidia.com/gpu-{gpus - 1} unavailable" in team.why_not(name), "Kueue says why")
