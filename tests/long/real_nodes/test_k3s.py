"""A node as k3s has it: its containerd, what doctor says of the values of other nodes, and a share.

k3s itself is not here. The node's containerd has k3s' places and its configuration is written at each start,
with the runtime `nvidia` only if NVIDIA's toolkit was there. The cluster is one of its own.
"""

import json
from collections.abc import Iterator

import pytest

from testbed.chart import Helm
from testbed.nodes.agent import TOOLKIT
from testbed.nodes.cluster import RealCluster
from testbed.nodes.layout import K3S
from testbed.nodes.node import RUNTIME_OF_TOOLKIT
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.cli.running import run as run_command
from tests.conftest import Say
from tests.real_nodes.agent_pods import GPUS, NODE, agent_cluster
from tests.real_nodes.installation import COMPONENTS, READY_S, Installation
from tests.real_nodes.operator_node import (
    CLIENT,
    PLUGIN,
    RUNTIME_CLASS,
    has_share,
    is_let_in,
    of_page,
    offered,
    ready_agents,
    run,
    set_label,
    until_another_serves,
    until_it_serves,
)
from tests.real_nodes.pods import WORK, labelled

OF_K3S = {"runtimeSocket": K3S.socket, "cdiDirs": ["/var/run/cdi"]}


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node whose k3s started before the GPU operator brought driver and toolkit."""
    with agent_cluster(say, pytestconfig, GPUS, image, K3S) as cluster:
        for namespace in (WORK, OWN_NAMESPACE):
            cluster.create_namespace(namespace)
        set_label(cluster, PLUGIN, "false")
        set_label(cluster, CLIENT, "true")
        # k3s has this one whether or not there is a toolkit.
        cluster.api.create(RUNTIME_CLASS)
        install_runtime(cluster)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The page's file, without what it says of k3s."""
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    installation.helm.apply(of_page(cdiDirs=OF_K3S["cdiDirs"]))
    for component in COMPONENTS:
        eventually(lambda c=component: installation.rolled_out(c), f"{component} is rolled out", READY_S)
    return installation


def install_runtime(cluster: RealCluster) -> None:
    """Have the toolkit's runtime where the operator puts it; it adds nothing to what runc does."""
    node = cluster.nodes[NODE]
    program = node.sandbox.folder / TOOLKIT / RUNTIME_OF_TOOLKIT
    program.write_text(f'#!/bin/sh\nexec {node.parts.runc} "$@"\n')
    program.chmod(0o755)


def restart_k3s(cluster: RealCluster) -> None:
    """Restart containerd with a configuration of now, and the kubelet, which are one process in k3s."""
    node = cluster.nodes[NODE]
    node.kubelet.stop()
    node.restart_containerd()
    node.start_kubelet()


def says(cluster: RealCluster, check: str) -> str:
    """The lines of one of doctor's checks that are not good."""
    ended = run_command("doctor", NODE, "--output=json", f"--kubeconfig={cluster.kubeconfig}")
    lines = [line for line in json.loads(ended.stdout) if line["check"] == check and line["level"] != "ok"]
    return "\n".join(f"{line['what']} -- {line['advice']}" for line in lines)


def until_said(cluster: RealCluster, *texts: str) -> None:
    eventually(
        lambda: all(text in says(cluster, "agent-pods") for text in texts), f"doctor says {texts}", 250
    )


@pytest.mark.timeout(1500, func_only=True)
def test_a_node_of_k3s_serves_after_what_doctor_says_and_after_a_reboot(installation, cluster):
    until_said(cluster, "is not a socket file", f"-- set agent.runtimeSocket: {K3S.socket} on k3s")

    installation.helm.apply(of_page(**OF_K3S))
    until_said(cluster, 'no runtime for "nvidia" is configured', "-- restart k3s")
    assert offered(cluster)[1:] == [None, None]

    restart_k3s(cluster)
    until_it_serves(cluster)
    assert says(cluster, "agent-pods") == says(cluster, "serving") == ""
    eventually(lambda: is_let_in(cluster, labelled("half", "0.500")), "labelled pods are let in", READY_S)
    run(cluster, labelled("half", "0.500"))
    has_share(cluster, "half", 4)

    of_before = ready_agents(installation)
    cluster.reboot(NODE, agent=False)
    until_another_serves(installation, of_before)
    eventually(lambda: is_let_in(cluster, labelled("after", "0.250")), "labelled pods are let in", READY_S)
    run(cluster, labelled("after", "0.250"))
    has_share(cluster, "after", 2)
