"""Whether a node's agent serves, by its own report and by what the node offers."""

import pytest

from controller.watch.agent_readiness import why_not_ready
from controller.watch.gpu_node import AgentReport
from controller.watch.resources import SeenNode
from modes.facts import NodeFact


@pytest.mark.parametrize(
    "change",
    [{"has_healthy_cards": False}, {"offers_by_dra": True}],
    ids=["all its GPUs are unhealthy", "it is a DRA driver"],
)
def test_an_agent_of_which_the_kubelet_offers_no_slices_may_serve(change):
    report = AgentReport("n", (), **{"has_healthy_cards": True, "is_registered": True} | change)
    assert why_not_ready(report, SeenNode(NodeFact(name="n"), "uid", offers_nothing=True)) is None
