"""The doctor on agents: their pods, what they report, and the cards."""

import msgspec
import pytest

from controller.watch.agent_coverage import read_agent_pods
from controller.watch.agent_taint import NodeTaints
from controller.watch.resources import SeenNode
from doctor.seen import AgentPod, AgentSet, NotRead, Waiting
from modes.facts import NodeFact
from tests.doctor.support import lines, node, says

SET = ("DaemonSet", "fraction-injector-agent")
CDI_OFF = "CDI is off in containerd://1.7.27: set enable_cdi = true"
TAINTED = NodeTaints(1, 0)
ELSEWHERE = AgentSet(0, 0, read_agent_pods('{"nodeSelector":{"pool":"other"}}'))
SILENT = msgspec.structs.replace(node(), offers_nothing=True)


def test_without_a_gpu_anywhere_it_warns():
    cpu = (SeenNode(NodeFact(name="cpu-1"), "uid"),)
    [(level, text)] = lines("nodes", nodes=cpu, reports={})
    assert (level, text.partition(" -- ")[0]) == ("warning", "no node offers GPUs")
    assert text.endswith("see why its agents serve none, below")
    [(_, text)] = lines("nodes", nodes=cpu, reports={}, agents=ELSEWHERE)
    assert text.endswith("label the GPU nodes: kubectl label node NODE pool=other")
    [(_, text)] = lines("nodes", nodes=cpu, reports={}, agents=None)
    assert "GPU feature discovery and device plugin" in text
    assert lines("nodes", node="cpu-1")[0][1].startswith("node cpu-1 offers no GPU")


@pytest.mark.parametrize(
    ("labels", "level", "what"),
    [
        ({}, "ok", "no node has labels of NVIDIA's GPU operator"),
        ({"device-plugin": "false"}, "ok", "node gpu-1: NVIDIA's GPU operator manages it by a ClusterPolicy"),
        ({"dra-driver": "false"}, "ok", "node gpu-1: NVIDIA's GPU operator manages it by a GPUCluster"),
        (
            {"dra-driver": "true"},
            "failed",
            "-- kubectl label node gpu-1 nvidia.com/gpu.deploy.dra-driver=false --overwrite",
        ),
    ],
)
def test_the_shape_of_the_gpu_operator_is_named_and_its_driver_kept_from_our_cards(labels, level, what):
    nodes = (node(labels={f"nvidia.com/gpu.deploy.{name}": value for name, value in labels.items()}),)
    [(found, text)] = lines("shape", nodes=nodes)
    assert (found, what in text) == (level, True)
    assert lines("shape", nodes=nodes, agents=None, agent_pods=(), reports={})[0][0] == "ok"


WHY = 'FailedCreate: pods "x-" is forbidden: RuntimeClass "nvidia" not found'


@pytest.mark.parametrize(
    ("agents", "level", "what"),
    [
        (None, "ok", "no agent is installed"),
        (ELSEWHERE, "warning", "matches no node -- label the GPU nodes: kubectl label node NODE pool=other"),
        (AgentSet(3, 1), "failed", f"2 pods of DaemonSet {SET[1]} are not created: {WHY} -- create the"),
    ],
)
def test_the_agents_daemon_set_creates_its_pods(agents, level, what):
    [(seen_level, text)] = lines("agents", agents=agents, events={SET: WHY})
    assert (seen_level, what in text) == (level, True), text


def test_a_pod_that_runs_and_reports_nothing_fails_and_one_that_reports_does_so_there():
    pods = (AgentPod("agent-a", "gpu-1", is_ready=False),)
    assert lines("agent-pods", agent_pods=pods)[0][0] == "ok"
    [(level, text)] = lines("agent-pods", agent_pods=pods, reports={})
    assert (level, "has reported nothing" in text) == ("failed", True)


@pytest.mark.parametrize(
    ("report", "what"),
    [
        (None, "no agent has reported from this node yet"),
        (says(boot="boot-0"), "its agent has not reported since the node restarted"),
        (says(registered=False), "its agent is not registered with the kubelet"),
        (
            says(registered=False, missing=f"nvidia.com/gpu-0: {CDI_OFF}; nvidia.com/gpu-1: {CDI_OFF}"),
            f"the agent is not registered: {CDI_OFF} (nvidia.com/gpu-0 and 1 more) -- set enable_cdi",
        ),
        (
            says(registered=False, missing="the agent has ended: look for its pod on the node"),
            "the agent is not registered: the agent has ended: look for its pod on the node -- look for",
        ),
    ],
)
def test_an_agent_that_does_not_serve_says_why(report, what):
    [(level, text)] = lines("serving", reports={"gpu-1": report} if report is not None else {})
    assert (level, text.startswith(f"node gpu-1: {what}"), " -- " in text) == ("failed", True, True)


def test_a_paused_agent_is_a_warning_and_no_failure():
    paused = node(labels={"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"})
    ended = {"gpu-1": says(registered=False, missing="the agent has ended: x")}
    [(level, text)] = lines("paused", nodes=(paused,), reports=ended)
    assert (level, "is paused-for-driver-upgrade" in text) == ("warning", True)
    assert lines("serving", nodes=(paused,), reports=ended)[0][0] == "ok"


@pytest.mark.parametrize(
    ("check", "changed", "text"),
    [
        ("usable", {"nodes": (node(usable=False),)}, "it is not ready, cordoned or being removed -- kubectl"),
        (
            "taints",
            {"nodes": (node(taints=TAINTED),)},
            "it takes no new pods: taint clearml-injector.io/agent",
        ),
        (
            "taints",
            {"nodes": (node(taints=TAINTED),), "agents": ELSEWHERE, "agent_pods": ()},
            "its agent left, and it takes no new pods until those that use its slices have ended -- fraction",
        ),
    ],
    ids=["not usable", "held for its agent", "held, and its agent left"],
)
def test_a_node_that_takes_no_pods_is_a_warning(check, changed, text):
    [(level, found)] = lines(check, **changed)
    assert (level, found.startswith(f"node gpu-1: {text}")) == ("warning", True), found


@pytest.mark.parametrize("listing", [{"ledgers": {}}, {"reports": {}, "nodes": (SILENT,)}])
def test_a_node_that_lost_the_agents_label_is_named_with_the_label(listing):
    what = "its labels no longer select the agent, and it is still listed with GPUs"
    advice = "kubectl label node gpu-1 pool=other; if that is meant, kubectl delete gpunode gpu-1"
    found = lines("left", agents=ELSEWHERE, agent_pods=(), **listing)
    assert found == [("warning", f"node gpu-1: {what} -- {advice}")]


def test_a_node_that_has_the_agents_label_or_another_device_plugin_is_fine():
    assert lines("left")[0][0] == "ok"
    assert lines("left", agents=ELSEWHERE, agent_pods=(), reports={})[0][0] == "ok"
    assert lines("left", agents=ELSEWHERE, agent_pods=(), node="gpu-2")[0][0] == "ok"


@pytest.mark.parametrize("check", ["serving", "cards", "unlimited", "driver-limits"])
def test_the_last_report_of_an_agent_that_left_is_no_fault(check):
    faulty = {"missing": "the agent has ended", "unhealthy": [(0, "it is held")], "driver_limits": "no hook"}
    given = {"agent_pods": (), "reports": {"gpu-1": says(registered=False, count=1, **faulty)}}
    assert [level for level, _ in lines(check, agents=ELSEWHERE, **given)] == ["ok"]
    # It is covered, its pod is still there, or nobody knows which nodes have one.
    pods = (AgentPod("agent-a", "gpu-1", is_ready=False),)
    for other in ({}, {"agents": ELSEWHERE, "agent_pods": pods}, {"agents": NotRead("no right")}):
        assert [level for level, _ in lines(check, **given | other)] != ["ok"]


def test_one_node_is_looked_at_where_one_is_named():
    nodes = (node("gpu-1"), node("gpu-2"))
    reports = {"gpu-1": says(), "gpu-2": says(unhealthy=[(0, "Xid 79")])}
    assert lines("cards", nodes=nodes, reports=reports, node="gpu-1")[0][0] == "ok"
    assert lines("cards", nodes=nodes, reports=reports, node="gpu-2")[0][0] == "failed"
    pods = (AgentPod("b", "gpu-2", is_ready=False, waiting=(Waiting("agent", "Error"),)),)
    assert lines("agent-pods", agent_pods=pods, node="gpu-1")[0][0] == "ok"


@pytest.mark.parametrize(
    ("labels", "report", "said"),
    [
        ({}, says(indices=()), "its agent finds no GPU -- "),
        (
            {},
            says(unhealthy=[(0, "DRA driver x offers it too")]),
            "GPU 0 is unhealthy: DRA driver x offers it",
        ),
        ({}, says(indices=(0, 2)), "GPU 1 was lost before the agent started -- "),
        ({"nvidia.com/gpu.count": "4"}, says(indices=(0, 1)), "GPUs 2, 3 were lost before the agent started"),
        ({"nvidia.com/gpu.count": "2"}, says(indices=(0, 1)), None),
        ({"nvidia.com/gpu.count": "7"}, says(has_mig=True), None),
        ({"nvidia.com/gpu.count": "none"}, says(), None),
    ],
)
def test_a_card_that_is_unhealthy_or_missing_from_its_agents_report_is_named(labels, report, said):
    [(level, text)] = lines("cards", nodes=(node(labels=labels),), reports={"gpu-1": report})
    assert level == ("ok" if said is None else "failed")
    assert said is None or text.startswith(f"node gpu-1: {said}")
