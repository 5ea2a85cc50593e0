"""Cohorts and preemption: webhook and ledger go along with Kueue."""

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually

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


def test_a_cohort_lends_and_takes_back(controller, team):
    lender, borrower = (team.queue(4, cohortName=f"{team.namespace}", preemption=PREEMPT) for _ in range(2))
    for number in range(3):
        team.pod(f"borrower-{number}", borrower)
    eventually(lambda: len(team.running()) == 2, "it borrows what the other one leaves")
    team.pod("owner", lender)
    eventually(lambda: "owner" in team.running(), "the other one takes it back")
    eventually(lambda: len(team.running()) == 2, "and the borrower has its own share")
    eventually(lambda: on_nodes(controller, team) == 8, "the ledger counts those that run")
