"""Kueue's flavors with nodeLabels: Kueue adds a node selector when a pod's GPU was chosen already."""

import pytest

from testbed.api import ApiError
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
    try:
        team.api.create(pod, team.namespace, dry_run=True)
    except ApiError as error:
        return str(error).partition("denied request: ")[2]
    return ""


@pytest.mark.usefixtures("policy")
def test_a_pod_names_its_flavor_and_runs_there(small_and_large, team):
    assert refusal(team) == SAID
    queue = team.queue(16, flavors=POOLS)
    for pool, node in zip(("large", "small"), reversed(small_and_large), strict=True):
        team.pod(f"in-{pool}", queue, nodeSelector={"pool": pool})
        eventually(lambda: f"in-{pool}" in team.running(), "it runs")  # noqa: B023 - called before the next
        assert team.api.get("Pod", f"in-{pool}", team.namespace)["spec"]["nodeName"] == node
