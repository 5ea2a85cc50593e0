"""Whether a node's agent serves, by its own report and by what the node offers."""

import msgspec
import pytest

from controller.watch.agent_readiness import is_urgent, why_not_ready
from controller.watch.gpu_node import AgentReport
from controller.watch.resources import SeenNode
from modes.facts import NodeFact


def report(*, registered=True, boot="boot-1"):
    return AgentReport("n", (), has_healthy_cards=True, is_registered=registered, boot_id=boot)


def node(boot="boot-1", *, offers_nothing=False):
    return SeenNode(NodeFact(name="n"), "uid", boot_id=boot, offers_nothing=offers_nothing)


@pytest.mark.parametrize(
    ("found", "boot", "ready", "urgent"),
    [
        (None, "boot-1", False, True),
        (report(), "boot-1", True, False),
        (report(), "boot-2", False, True),
        (report(registered=False), "boot-1", False, False),
        (report(registered=False), "boot-2", False, True),
        (report(boot=""), "boot-1", True, False),
        (report(), "", True, False),
    ],
)
def test_an_agent_serves_once_it_is_registered_in_this_boot(found, boot, ready, urgent):
    assert (why_not_ready(found, node(boot)) is None, is_urgent(found, node(boot))) == (ready, urgent)


def test_an_agent_of_whose_healthy_gpus_the_kubelet_offers_nothing_is_dead_whatever_it_said_last():
    why = why_not_ready(report(), node(offers_nothing=True))
    assert why == "its agent is silent: the kubelet offers no slice of GPUs that it called healthy"
    assert not is_urgent(report(), node(offers_nothing=True))


def test_gpus_that_are_all_unhealthy_are_offered_by_nobody_and_their_agent_serves():
    unhealthy = msgspec.structs.replace(report(), has_healthy_cards=False)
    assert why_not_ready(unhealthy, node(offers_nothing=True)) is None


def test_an_agent_that_offers_by_dra_needs_no_slices_at_the_kubelet():
    by_dra = msgspec.structs.replace(report(), offers_by_dra=True)
    assert why_not_ready(by_dra, node(offers_nothing=True)) is None
