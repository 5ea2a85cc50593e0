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


CPU = {"nodes": (SeenNode(NodeFact(name="cpu-1"), "uid"),), "reports": {}}
UNREADY = {"agent_pods": (AgentPod("agent-a", "gpu-1", is_ready=False),)}
WHY = 'FailedCreate: pods "x-" is forbidden: RuntimeClass "nvidia" not found'
LEFT = {"nodes": (node(taints=TAINTED),), "agents": ELSEWHERE, "agent_pods": ()}


def labelled(name, value):
    return {"nodes": (node(labels={f"nvidia.com/gpu.deploy.{name}": value}),)}


FINDINGS = {
    "no GPU where agents serve none": (
        "nodes",
        CPU,
        "warning",
        "no node offers GPUs -- see why its agents serve",
    ),
    "no node that the agent selects": (
        *("nodes", {**CPU, "agents": ELSEWHERE}, "warning"),
        "-- label the GPU nodes: kubectl label node NODE pool=other",
    ),
    "no GPU and no agent": (
        "nodes",
        {**CPU, "agents": None},
        "warning",
        "GPU feature discovery and device plug",
    ),
    "a node without GPUs": ("nodes", {"node": "cpu-1"}, "warning", "node cpu-1 offers no GPU"),
    "no GPU operator": ("shape", {}, "ok", "no node has labels of NVIDIA's GPU operator"),
    "a ClusterPolicy": ("shape", labelled("device-plugin", "false"), "ok", "manages it by a ClusterPolicy"),
    "a GPUCluster": ("shape", labelled("dra-driver", "false"), "ok", "manages it by a GPUCluster"),
    "a GPUCluster without our agent": (
        *("shape", {**labelled("dra-driver", "true"), "agents": None, "agent_pods": (), "reports": {}}, "ok"),
        "by a GPUCluster",
    ),
    "a GPUCluster that offers our cards": (
        *("shape", labelled("dra-driver", "true"), "failed"),
        "-- kubectl label node gpu-1 nvidia.com/gpu.deploy.dra-driver=false --overwrite",
    ),
    "no agent": ("agents", {"agents": None}, "ok", "no agent is installed"),
    "an agent for no node": ("agents", {"agents": ELSEWHERE}, "warning", "no node -- label the GPU nodes: k"),
    "pods that are not created": (
        *("agents", {"agents": AgentSet(3, 1), "events": {SET: WHY}}, "failed"),
        f"2 pods of DaemonSet {SET[1]} are not created: {WHY} -- create the",
    ),
    "a pod whose report says why": ("agent-pods", UNREADY, "ok", "no pod of the agent waits"),
    "a pod that reports nothing": (
        "agent-pods",
        {**UNREADY, "reports": {}},
        "failed",
        "has reported nothing -- read",
    ),
    "a node that is not ready": (
        *("usable", {"nodes": (node(usable=False),)}, "warning"),
        "node gpu-1: it is not ready, cordoned or being removed -- kubectl",
    ),
    "a held node": (
        *("taints", {"nodes": (node(taints=TAINTED),)}, "warning"),
        "node gpu-1: it takes no new pods: taint clearml-injector.io/agent-not-ready -- ",
    ),
    "a held node whose agent left": (
        *("taints", LEFT, "warning"),
        "its agent left, and it takes no new pods until those that use its slices have ended -- ",
    ),
}


@pytest.mark.parametrize(("check", "changed", "level", "what"), FINDINGS.values(), ids=FINDINGS)
def test_nodes_and_the_pods_of_agents_are_judged(check, changed, level, what):
    [(seen_level, text)] = lines(check, **changed)
    assert (seen_level, what in text) == (level, True), text


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


FORBIDDEN = "node facts are not written: the API server answered 403: gpunodes is forbidden"


def test_an_agent_that_reports_nothing_says_why_in_its_log_if_that_may_be_read():
    what = f"no agent has reported from this node yet; its agent logs: {FORBIDDEN} -- check the rights"
    [(level, text)] = lines("serving", reports={}, agent_logs={"gpu-1": FORBIDDEN})
    assert (level, text.startswith(f"node gpu-1: {what}")) == ("failed", True)
    [(level, text)] = lines("serving", reports={}, agent_logs=NotRead("you lack the right"))
    assert (level, "its agent logs" in text) == ("failed", False)


def test_a_paused_agent_is_a_warning_and_no_failure():
    paused = node(labels={"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"})
    ended = {"gpu-1": says(registered=False, missing="the agent has ended: x")}
    [(level, text)] = lines("paused", nodes=(paused,), reports=ended)
    assert (level, "is paused-for-driver-upgrade" in text) == ("warning", True)
    assert lines("serving", nodes=(paused,), reports=ended)[0][0] == "ok"


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
