"""Pods that only a node's agent limits, on a real control plane: placed where one runs, else refused."""

from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from testbed.controller_process import Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.agent_reports import forget, report
from tests.control_plane.test_controller_placement import create

POLICY = """
kind: Policy
name: default
limits: {from: agent}
fractions: {"0.250": 2, "0.500": 4, "1.000": 8}
"""


@pytest.fixture
def controller(control_plane, namespace, tmp_path):
    install_crd(control_plane.api)
    tls = write_tls(tmp_path / "tls", make_authority(datetime.now(UTC)))
    with Controller(control_plane.kubeconfig, tmp_path, tls, f"agents-{namespace}") as running:
        running.until_leading()
        yield running


@pytest.fixture
def webhook(control_plane, namespace, controller, tmp_path):
    """A registered webhook whose pods an agent limits."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text(POLICY)
    with registered_webhook(control_plane.api, namespace, controller, tmp_path, policies) as running:
        yield running


def preferred(pod):
    """The node that a pod of ours prefers; None where it waits for any."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    named = [term["preference"]["matchFields"][0]["values"][0] for term in terms]
    return named[0] if named else None


def chosen(control_plane, namespace, name, fraction):
    """Create a pod, and return the node that it prefers."""
    assert create(control_plane, namespace, [name], fraction) == {}
    return preferred(control_plane.api.get("Pod", name, namespace))


def test_only_nodes_with_a_running_agent_are_chosen_with_the_controller_and_without(
    control_plane, namespace, nodes, controller, webhook
):
    # By its free slices alone the node with another plugin would be the better one.
    plugin, agent = nodes(GpuNode(gpus=1, cpu="32"), GpuNode(gpus=4))
    [refusal] = create(control_plane, namespace, ["refused"], "0.500").values()
    assert "on 2 nodes no node agent runs, and nothing else would limit the pod: ask the admin" in refusal
    report(control_plane, agent)
    eventually(lambda: create(control_plane, namespace, ["a"], "0.500") == {}, "a pod is let in", 30)
    assert preferred(control_plane.api.get("Pod", "a", namespace)) == agent
    eventually(
        lambda: control_plane.api.get("Pod", "a", namespace)["spec"].get("nodeName") == agent, "it is bound"
    )
    assert chosen(control_plane, namespace, "whole", "1.000") == plugin
    report(control_plane, agent, registered=False)
    eventually(lambda: waits(control_plane, namespace), "a pod waits for the agent", 30)
    # What the webhook knows without a controller is what that last told: of this pod after the agent.
    assert chosen(control_plane, namespace, "after", "0.250") is None
    eventually(lambda: webhook.figure("fraction_injector_snapshot_slices_used") == 14, "all pods are told")
    controller.kill()
    assert chosen(control_plane, namespace, "last", "0.250") is None
    forget(control_plane, agent)


def waits(control_plane, namespace):
    """Whether a pod that would be made now prefers no node."""
    pod = labelled_pod("asked", "0.250")
    return preferred(control_plane.api.create(pod, namespace, dry_run=True)) is None
