"""The ten minutes' page, walked as it is written, and the layouts of nodes that the agent meets.

NVIDIA's device plugin runs as the operator's DaemonSet has it, over NVIDIA's toolkit and a driver where the
operator has them. The test does what the operator does with labels. Its cluster is one of its own.
"""

from collections.abc import Iterator

import pytest

from testbed.api import ApiError, Object
from testbed.chart import Helm
from testbed.nodes.agent import AgentOnNode
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET
from testbed.nodes.stub_images import WORKLOAD
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, probe, refuses
from tests.conftest import Say
from tests.real_nodes.agent_pods import GPUS, NODE, agent_cluster
from tests.real_nodes.installation import COMPONENTS, READY_S, Installation
from tests.real_nodes.operator_node import (
    CLIENT,
    HELD,
    PLUGIN,
    RUNTIME_CLASS,
    gpu_node,
    has_share,
    is_let_in,
    of_page,
    offered,
    rolled_out,
    run,
    running,
    serve,
    set_label,
    taints,
)
from tests.real_nodes.pods import LIMIT, WORK, cards, labelled, pod

OPERATOR = "gpu-operator"
USUAL_SOCKET = "/run/containerd/containerd.sock"


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node with the GPU operator's driver, toolkit and device plugin, and its labels."""
    with agent_cluster(say, pytestconfig, GPUS, image) as cluster:
        for namespace in (WORK, OPERATOR, OWN_NAMESPACE):
            cluster.create_namespace(namespace)
        show_socket(cluster)
        set_label(cluster, PLUGIN, "true")
        set_label(cluster, CLIENT, "true")
        cluster.api.create(RUNTIME_CLASS)
        cluster.api.create(device_plugin(cluster.nodes[NODE].agent), OPERATOR)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    eventually(lambda: offered(cluster) == ["2", None, None], "NVIDIA's plugin offers both cards", READY_S)
    installation.helm.apply(of_page())
    # No labelled pod is let in yet: no node offers slices.
    for component in COMPONENTS:
        eventually(lambda c=component: installation.rolled_out(c), f"{component} is rolled out", READY_S)
    return installation


def show_socket(cluster: RealCluster) -> None:
    """Have containerd's socket where most nodes have it."""
    sandbox = cluster.nodes[NODE].sandbox
    sandbox.check("mkdir", "-p", USUAL_SOCKET.rpartition("/")[0])
    sandbox.check("touch", USUAL_SOCKET)
    sandbox.check("mount", "--bind", SOCKET, USUAL_SOCKET)


def device_plugin(agent: AgentOnNode) -> Object:
    """NVIDIA's device plugin as a DaemonSet on the nodes that the operator's label gives it."""
    container = {
        "name": "nvidia-device-plugin",
        "image": WORKLOAD,
        "imagePullPolicy": "Never",
        "command": agent.run_device_plugin(),
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "host", "mountPath": "/host", "mountPropagation": "HostToContainer"}],
    }
    template = {
        "metadata": {"labels": {"app": "nvidia-device-plugin-daemonset"}},
        "spec": {
            "nodeSelector": {PLUGIN: "true"},
            # Of the page's first command.
            "tolerations": [{"key": HELD["key"], "operator": "Exists", "effect": HELD["effect"]}],
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset"},
        "spec": {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }


def test_the_walk_of_the_page(installation, cluster):
    # Nothing changed yet: NVIDIA's plugin serves, and a pod of before holds a card.
    whole = run(cluster, pod("whole", {}, resources={"limits": {"nvidia.com/gpu": "1"}}))
    [of_whole] = cards(cluster, "whole")
    assert (offered(cluster), installation.objects("agent"), taints(cluster)) == (["2", None, None], [], [])

    set_label(cluster, PLUGIN, "false")
    held = int(of_whole[-1])
    wanted = ["0", *("0" if index == held else "8" for index in range(len(GPUS)))]
    eventually(
        lambda: offered(cluster) == wanted, "slices of the card that nobody holds are offered", READY_S
    )
    assert running(cluster, "whole") == whole
    eventually(lambda: "why" in gpu_node(cluster)["gpus"][held], "the agent says why", 60)
    assert gpu_node(cluster)["gpus"][held]["why"].startswith(f"pod {WORK}/whole holds it as nvidia.com/gpu")

    eventually(lambda: not refuses(probe(cluster.api, WORK)), "labelled pods are let in", 60)
    lifted = [{"name": LIMIT, "value": "999999m"}]
    first = run(cluster, labelled("first", "0.125", env=lifted))
    has_share(cluster, "first", 1)
    [agent] = installation.objects("agent")
    status = installation.exec(agent["metadata"]["name"], "cat", "/proc/1/status").stdout
    assert "CapEff:\t0000000000000000" in status
    assert cards(cluster, "first") != [of_whole]

    cluster.api.delete("Pod", "whole", WORK)
    eventually(lambda: offered(cluster)[1:] == ["8", "8"], "the other card is offered, too", 60)

    set_label(cluster, PLUGIN, "true")
    eventually(lambda: offered(cluster) == ["2", "0", "0"], "NVIDIA's plugin is back", READY_S)
    assert installation.objects("agent") == []
    assert running(cluster, "first") == first
    has_share(cluster, "first", 1)
    eventually(lambda: taints(cluster) == [HELD], "the node is held for the share", 60)

    set_label(cluster, PLUGIN, "false")
    eventually(lambda: offered(cluster) == ["0", "8", "8"], "the agent is back", READY_S)
    assert running(cluster, "first") == first
    eventually(lambda: not taints(cluster), "the node takes pods again", 60)
    cluster.api.delete("Pod", "first", WORK)


@pytest.mark.timeout(900, func_only=True)
def test_moving_to_claims_and_back_leaves_pods_that_run_alone(installation, cluster):
    set_label(cluster, PLUGIN, "false")
    serve(installation)
    eventually(lambda: is_let_in(cluster, labelled("tried", "0.125")), "labelled pods are let in", READY_S)
    before = {name: run(cluster, labelled(name, "0.875")) for name in ("stays", "ends")}
    cluster.api.create(labelled("waits", "0.500"), WORK)

    # As the page is written, on this release of Kubernetes.
    installation.helm.apply(of_page(offer="auto"))
    eventually(lambda: rolled_out(cluster), "the agent that offers shares is ready", 200)
    eventually(lambda: gets_claim(cluster), "new pods get claims", READY_S)
    assert cluster.dra_devices(NODE) == {}
    assert {name: running(cluster, name) for name in before} == before
    [freed] = cards(cluster, "ends")
    cluster.api.delete("Pod", "ends", WORK)
    eventually(lambda: len(cluster.dra_devices(NODE)) == 1, "its card is offered", READY_S)
    run(cluster, labelled("claimed", "0.500"))
    assert cards(cluster, "claimed") == [freed]
    has_share(cluster, "claimed", 4)
    has_share(cluster, "stays", 7)
    assert running(cluster, "waits") is None

    # Back: the node is drained first.
    for name in ("claimed", "stays", "waits"):
        cluster.api.delete("Pod", name, WORK)
    eventually(lambda: not cluster.api.list("ResourceClaim", WORK, "resource.k8s.io/v1"), "no claim is left")
    serve(installation)
    eventually(lambda: gets_claim(cluster) is False, "new pods get slices", READY_S)
    run(cluster, labelled("last", "0.500"))
    has_share(cluster, "last", 4)
    cluster.api.delete("Pod", "last", WORK)


def gets_claim(cluster: RealCluster) -> bool | None:
    """Whether a labelled pod that is created now would get a claim; None if it is refused."""
    try:
        made = cluster.api.create(labelled("tried", "0.125"), WORK, dry_run=True)
    except ApiError:
        return None
    return "resourceClaims" in made["spec"]
