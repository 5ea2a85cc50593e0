"""When a node is held for its agent: pure rules."""

import json

import msgspec
import pytest

from controller.gpu_node import AgentReport
from controller.node_agents.coverage import Coverage, read_agent_pods
from controller.node_agents.decision import GRACE_SECONDS, decide, is_urgent, why_not_ready
from controller.node_agents.taint import NodeTaints, hold_patch, release_patch, taints_of
from controller.resources import SeenNode
from kube.scheduling import Taint
from ledger.facts import NodeFact

OURS = Taint("clearml-injector.io/agent-not-ready", "NoSchedule")
OTHER = Taint("dedicated", "NoSchedule", "gpu")


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
    ill = msgspec.structs.replace(report(), has_healthy_cards=False)
    assert why_not_ready(ill, node(offers_nothing=True)) is None


@pytest.mark.parametrize(
    ("held", "why", "urgent", "waited", "action"),
    [
        (False, None, False, 0, "leave"),
        (True, None, False, 0, "release"),
        (False, "away", True, 0, "hold"),
        (True, "away", True, 0, "leave"),
        (False, "unregistered", False, GRACE_SECONDS - 1, "leave"),
        (False, "unregistered", False, GRACE_SECONDS, "hold"),
        (True, "unregistered", False, 0, "leave"),
    ],
)
def test_a_short_absence_holds_nothing_and_releases_nothing(held, why, urgent, waited, action):
    assert decide(is_held=held, why=why, urgent=urgent, waited_seconds=waited) == action


def covers(pods, *taints, **labels):
    return Coverage(read_agent_pods(pods)).covers("n", labels, taints)


def test_the_daemon_set_covers_what_its_pods_select_and_tolerate():
    pods = '{"nodeSelector":{"gpu":"yes"},"tolerations":[{"key":"dedicated","operator":"Exists"}]}'
    assert covers(pods, OTHER, OURS, gpu="yes")
    assert not covers(pods, gpu="no")
    assert not covers(pods, Taint("else", "NoSchedule"), gpu="yes")


def test_affinity_takes_nodes_out():
    term = {"matchExpressions": [{"key": "mig", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pods = json.dumps({"affinity": {"nodeAffinity": required}})
    assert covers(pods)
    assert not covers(pods, mig="all")


def test_a_daemon_set_without_a_choice_selects_nothing():
    assert not Coverage(read_agent_pods('{"nodeSelector":{},"affinity":{},"tolerations":[]}')).selects


def test_only_our_taint_with_our_effect_is_ours():
    assert taints_of([]) == NodeTaints(0, None)
    assert taints_of([OTHER, OURS]) == NodeTaints(2, 1)
    assert taints_of([Taint(OURS.key, "NoExecute")]) == NodeTaints(1, None)


def test_patches_change_nothing_but_our_taint():
    assert [(op["op"], op["path"]) for op in hold_patch(NodeTaints(2))] == [("add", "/spec/taints/-")]
    assert [op["op"] for op in hold_patch(NodeTaints())] == ["test", "add"]
    assert [(op["op"], op["path"]) for op in release_patch(1)] == [
        ("test", "/spec/taints/1/key"),
        ("test", "/spec/taints/1/effect"),
        ("remove", "/spec/taints/1"),
    ]
