"""Cohorts, preemption and many pods: webhook and ledger go along with Kueue."""

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from tests.control_plane.kueue.support import is_gated

PRIORITY = "scheduling.k8s.io/v1"


@pytest.fixture
def controller(nodes, serve):
    """The controller and a webhook that asks it, on nodes with room for all."""
    nodes(*[GpuNode(gpus=4, memory="2Ti", cpu="1000")] * 2)
    return serve()[0]


@pytest.fixture
def urgent(control_plane):
    made = {"apiVersion": PRIORITY, "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    path = f"/apis/{PRIORITY}/priorityclasses"
    control_plane.api.call("POST", path, made)
    yield "urgent"
    control_plane.api.call("DELETE", f"{path}/urgent")


PREEMPT = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def test_a_higher_priority_takes_the_place_of_a_lower_one_and_the_ledger_goes_along(controller, team, urgent):
    queue = team.queue(8, preemption=PREEMPT)
    for name in ("one", "two"):
        team.pod(name, queue)
    eventually(lambda: team.running() == ["one", "two"], "the quota is full")
    team.pod("urgent", queue, priority=urgent)
    eventually(
        lambda: "urgent" in (running := team.running()) and len(running) == 2, "it runs in the place of one"
    )
    eventually(lambda: on_nodes(controller, team) == 8, "the ledger counts those that run")


def on_nodes(controller, team):
    """Slices that the ledger counts on the test's nodes."""
    taken = controller.taken()
    return sum(sum(taken[name].values()) for name in taken if name.startswith(team.namespace))


def backlog(controller, team):
    """Slices of the test's pods that the ledger counts as waiting for the index that they have."""
    pending = [each for each in controller.ledger().backlog if each.namespace == team.namespace]
    return {each.name: each.slices for each in pending if each.indices}


def test_a_pod_that_kueue_holds_back_has_no_slices_of_a_node(controller, team):
    queue = team.queue(4)
    team.pod("runs", queue)
    eventually(lambda: team.running() == ["runs"], "it runs")
    assert is_gated(team.pod("waits", queue))
    eventually(lambda: backlog(controller, team) == {"waits": 4}, "its slices are backlog of its index")
    eventually(lambda: on_nodes(controller, team) == 4, "only what runs takes slices of a node")
    team.api.delete("Pod", "runs", team.namespace)
    eventually(lambda: team.running() == ["waits"], "Kueue lets it go")
    eventually(lambda: on_nodes(controller, team) == 4, "and it takes them then")


def test_a_cohort_lends_and_takes_back(controller, team):
    lender, borrower = (team.queue(4, cohortName=f"{team.namespace}", preemption=PREEMPT) for _ in range(2))
    for number in range(3):
        team.pod(f"borrower-{number}", borrower)
    eventually(lambda: len(team.running()) == 2, "it borrows what the other one leaves")
    team.pod("owner", lender)
    eventually(lambda: "owner" in team.running(), "the other one takes it back")
    eventually(lambda: len(team.running()) == 2, "and the borrower has its own share")
    eventually(lambda: on_nodes(controller, team) == 8, "the ledger counts those that run")
