"""What containers use of their shares, from the driver's processes to what users read, on a real kubelet.

Its cluster is one of its own: a node whose GPU only the chart offers, by an agent that sees the processes.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kube.names import GPU_NODES_PATH
from testbed.api import Object
from testbed.chart import Helm
from testbed.nodes.agent import chart_values
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET
from testbed.nvidia.cards import RunningProcess
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.agent_pods import GPUS, NODE, agent_cluster
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.pods import WORK, labelled, phase
from tests.real_nodes.use import MEASURED_S, run

ASK = "import urllib.request as r; print(r.urlopen('http://{}:9082/metrics').read().decode())"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node of one GPU."""
    with agent_cluster(say, pytestconfig, GPUS[:1], image) as cluster:
        cluster.create_namespace(WORK)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart."""
    cluster.create_namespace(OWN_NAMESPACE)
    return Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))


def install(installation: Installation, cluster: RealCluster, **measuring: bool) -> None:
    """Install the chart, or change it, so that its agent measures in this way."""
    values = chart_values(SOCKET)
    installation.helm.apply({**VALUES, **values, "agent": {**values["agent"], **measuring}})
    eventually(lambda: cluster.is_ready(NODE), "the agent offers its GPU", READY_S)
    installation.until_served()


def pid_of(cluster: RealCluster, pod: Object) -> int:
    """The first process of a pod's container, as the node counts."""
    group = f"pod{pod['metadata']['uid']}"
    script = f"""for found in $(grep --files-with-matches --no-messages {group} /proc/[0-9]*/cgroup); do
        folder=${{found%/cgroup}}
        tr '\\0' ' ' < $folder/cmdline | grep --quiet '^sleep' && echo ${{folder#/proc/}}
    done; true"""
    [pid] = cluster.nodes[NODE].sandbox.check("bash", "-c", script).split()
    return int(pid)


def measured(cluster: RealCluster) -> dict[str, dict]:
    """What the GpuNode says of the use by containers, by pod."""
    status = cluster.api.call("GET", f"{GPU_NODES_PATH}/{NODE}").get("status", {})
    return {each["pod"]: each for each in status.get("usage", {}).get("containers", [])}


def figures(of_pod: dict | None) -> tuple | None:
    """The memory and the time of a container."""
    return (of_pod["usedMiB"], of_pod["peakMiB"], of_pod.get("busyPercent")) if of_pod else None


def test_memory_and_time_of_a_container_are_seen_from_the_node_to_the_command_line(installation, cluster):
    install(installation, cluster, podMetrics=True)
    pods = {}
    for name, share in (("training", "0.500"), ("resting", "0.250")):
        cluster.api.create(labelled(name, share), WORK)
        eventually(lambda name=name: phase(cluster, name) == "Running", f"{name} runs")
        pods[name] = cluster.api.get("Pod", name, WORK)
    pid = pid_of(cluster, pods["training"])
    agent = cluster.nodes[NODE].agent
    agent.write_gpus([replace(GPUS[0], processes=(RunningProcess(pid, 4096, 30),))])

    eventually(
        lambda: (figures(measured(cluster).get("training")) or (0,))[0] == 4096,
        "the GpuNode says what is used",
        MEASURED_S,
    )
    eventually(
        lambda: figures(measured(cluster).get("resting")) == (0, 0, 0),
        "the GpuNode says that nothing is used",
        MEASURED_S,
    )
    agent.write_gpus([replace(GPUS[0], processes=(RunningProcess(pid, 1024, 30),))])
    eventually(
        lambda: figures(measured(cluster)["training"])[:2] == (1024, 4096),
        "the GpuNode says that less is used, and the peak",
        MEASURED_S,
    )

    [pod] = installation.objects("agent")
    asking = ASK.format(pod["status"]["podIP"])
    found = installation.exec(pod["metadata"]["name"], "python3", "-c", asking).stdout
    labels = f'{{container="main",gpu="0",namespace="{WORK}",pod="training"}}'
    series = dict(line.rsplit(" ", 1) for line in found.splitlines() if line[:1] not in {"", "#"})
    prefix = "fraction_injector_agent_container_"
    assert float(series[f"{prefix}memory_used_bytes{labels}"]) == 1024 * MIB
    assert float(series[f"{prefix}memory_peak_bytes{labels}"]) == 4096 * MIB
    assert 0 < float(series[f"{prefix}utilisation_ratio{labels}"]) <= 0.3

    eventually(
        lambda: len(json.loads(run(cluster, "ledger", "--use", "-o", "json"))) == 2,
        "the ledger has both pods",
    )
    uses = {each["pod"]: each for each in json.loads(run(cluster, "ledger", "--use", "-o", "json"))}
    assert (uses["training"]["slices"], uses["training"]["usedMiB"]) == (4, 1024)
    assert (uses["training"]["memoryMiB"], uses["training"]["peakMiB"]) == (20480, 4096)
    assert uses["resting"]["usedMiB"] == 0
    assert "1024 of 20480" in run(cluster, "ledger", "--use")
    explained = run(cluster, "why", "training", "--namespace", WORK)
    assert "Of GPU 0 it uses 1024 of 20480 MiB (peak 4096), and its kernels ran " in explained
