"""Nodes without a serving agent on a real API server: held, let go, and never another's taint touched."""

import pytest

from testbed.chart import CHART, RELEASE, Helm, objects_of
from testbed.gpu_nodes import GpuNode, schedulable
from testbed.process import eventually
from tests.control_plane.agent_reports import report

KEY = "clearml-injector.io/agent-not-ready"
OTHER = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def agent_pods(selector):
    return f'--agent-pods={{"nodeSelector":{{"pool":"{selector}"}},"tolerations":[{{"operator":"Exists"}}]}}'


@pytest.fixture
def make_node(control_plane, namespace):
    """Make a node of one GPU with a taint that is not ours; return its name."""
    made = []

    def one(name, **labels):
        full = f"{namespace}-{name}"
        control_plane.api.create(GpuNode(labels=labels, taints=[OTHER]).manifest(full))
        made.append(full)
        eventually(lambda: schedulable(control_plane.api.get("Node", full)), "the node is ready")
        return full

    yield one
    control_plane.kubectl("delete", "node", *made)


def keys(control_plane, node):
    return sorted(taint["key"] for taint in control_plane.api.get("Node", node)["spec"].get("taints", ()))


def set_boot(control_plane, node, boot):
    """What a kubelet says of its node after a reboot; KWOK keeps it."""
    body = {"status": {"nodeInfo": {"bootID": boot}}}
    path = f"/api/v1/nodes/{node}/status"
    control_plane.api.call("PATCH", path, body, {}, "application/strategic-merge-patch+json")


def until(control_plane, node, *wanted):
    eventually(lambda: keys(control_plane, node) == [*wanted], f"{node} has the taints {wanted}")


HELD, FREE = (KEY, "dedicated"), ("dedicated",)


def test_a_node_takes_pods_only_while_its_agent_serves(start, make_node, control_plane, namespace):
    covered, other = make_node("covered", pool=namespace), make_node("other", pool="else")
    set_boot(control_plane, covered, "boot-1")
    controller = start("controller", agent_pods(namespace))
    until(control_plane, covered, *HELD)
    report(control_plane, covered, bootID="boot-1")
    until(control_plane, covered, *FREE)
    set_boot(control_plane, covered, "boot-2")
    until(control_plane, covered, *HELD)
    report(control_plane, covered, bootID="boot-2", registered=False)
    report(control_plane, covered, bootID="boot-2")
    until(control_plane, covered, *FREE)
    assert keys(control_plane, other) == ["dedicated"]
    assert "fraction_injector_nodes_held" in controller.plain("/metrics")


def test_a_controller_without_agents_takes_the_taint_off(start, make_node, control_plane):
    node = make_node("left")
    control_plane.kubectl("taint", "node", node, f"{KEY}=:NoSchedule")
    assert keys(control_plane, node) == [*HELD]
    start()
    until(control_plane, node, *FREE)


def test_the_right_outlives_the_agent_by_the_upgrade_that_turns_it_off(control_plane, tmp_path):
    helm = Helm(control_plane, tmp_path)
    name = f"{RELEASE}-agent"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    control_plane.api.create(role)
    try:
        ended = helm.run("template", RELEASE, str(CHART), "--dry-run=server", helm.values({}))
    finally:
        control_plane.kubectl("delete", "clusterrole", name)
    assert ended.code == 0, ended.stderr
    roles = [each for each in objects_of(ended.stdout) if each["kind"] == "ClusterRole"]
    [rules] = [each["rules"] for each in roles if each["metadata"]["name"] == f"{RELEASE}-controller"]
    assert {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]} in rules
