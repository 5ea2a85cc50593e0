"""Mode dra from the label to the limit: webhook, controller and agent of the chart, on cards of 40 and 80 GB.

Its cluster is one of its own: a node whose GPUs only the node agent offers, by DRA.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli.app import app
from kube.dra import CLAIM_NAME
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
from tests.real_nodes.claimed_pods import ClaimedPods, consumed
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.pods import LIMIT, WORK, inside, labelled

POLICY = {
    "memory": {"allowed": True},
    "fractions": {"1.000": 8, "0.875": 7, "0.625": 5, "0.500": 4, "0.125": 1},
}
MEASURED_S = 200
"""The agent measures every 15 s; a machine may be busy with much else."""
ASK = "import urllib.request as r; print(r.urlopen('http://{}:9082/metrics').read().decode())"
SIZES = {"/dev/nvidia0": 40960, "/dev/nvidia1": 81920}


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node on which the node agent finds two cards."""
    with agent_cluster(say, pytestconfig, GPUS, image, by_dra=True) as cluster:
        cluster.create_namespace(WORK)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart, whose agent has published both cards and whose webhook admits pods to them."""
    cluster.create_namespace(OWN_NAMESPACE)
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    # Neither values nor policy name the mode: the chart chooses it.
    agent = {**chart_values(SOCKET)["agent"], "offer": "auto", "podMetrics": True}
    installation.helm.apply({**VALUES, "agent": agent, "policies": {"default": POLICY}})
    eventually(lambda: len(cluster.dra_devices(NODE)) == len(GPUS), "the agent offers both GPUs", READY_S)
    installation.until_served()
    return installation


@pytest.fixture
def pods(installation: Installation, cluster: RealCluster) -> Iterator[ClaimedPods]:
    """A way to create pods that are gone, with their claims, when the test ends."""
    pods = ClaimedPods(cluster)
    yield pods
    pods.delete_all()


def run(cluster: RealCluster, *arguments: str) -> str:
    ended = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(cluster.kubeconfig)])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def pid_of(cluster: RealCluster, pod: Object) -> int:
    """The process of a pod of one container, as the node counts."""
    group = f"pod{pod['metadata']['uid']}"
    script = f"""for found in $(grep --files-with-matches --no-messages {group} /proc/[0-9]*/cgroup); do
        folder=${{found%/cgroup}}
        tr '\\0' ' ' < $folder/cmdline | grep --quiet '^sleep' && echo ${{folder#/proc/}}
    done; true"""
    [pid] = cluster.nodes[NODE].sandbox.check("bash", "-c", script).split()
    return int(pid)


def measured(cluster: RealCluster, pod: str) -> dict[str, tuple[int, int]]:
    """The MiB that containers of a pod may use, and use, as the GpuNode has them."""
    status = cluster.api.call("GET", f"{GPU_NODES_PATH}/{NODE}").get("status", {})
    found = [each for each in status.get("usage", {}).get("containers", []) if each["pod"] == pod]
    return {each["container"]: (each["memoryMiB"], each["usedMiB"]) for each in found}


def used(cluster: RealCluster) -> dict[str, dict]:
    """What users read of what pods use, by pod."""
    return {each["pod"]: each for each in json.loads(run(cluster, "ledger", "--use", "-o", "json"))}


def test_a_labelled_pod_gets_a_claim_and_half_of_its_card_whatever_it_says(cluster, pods):
    lifted = {LIMIT: "999999m", "LD_PRELOAD": "", "NVIDIA_VISIBLE_DEVICES": "all"}
    pods.run("half", "0.500", env=[{"name": name, "value": value} for name, value in lifted.items()])
    stored = cluster.api.get("Pod", "half", WORK)["spec"]
    [of_pod] = stored["resourceClaims"]
    assert of_pod["name"] == CLAIM_NAME
    assert of_pod["resourceClaimTemplateName"].startswith("gpu-fraction-4of8-")
    assert stored["containers"][0]["resources"] == {"claims": [{"name": CLAIM_NAME}]}
    assert pods.limit("half") == f"{SIZES[pods.card('half')] // 2}m"
    assert inside(cluster, "half", "cat", "/etc/ld.so.preload") == "/usr/local/vgpu/libvgpu.so\n"


def test_requested_memory_is_the_limit_to_the_mib(cluster, pods):
    pods.run("memory", memory="1431Mi")
    assert pods.limit("memory") == "1431m"
    assert consumed(cluster) == [{"share": "34937"}]  # of the small card, rounded up


def test_containers_of_a_pod_share_one_card_and_each_has_its_own_limit_that_its_use_stands_beside(
    cluster, pods
):
    pod = labelled("shared", "0.625")
    pod["metadata"]["annotations"] = {"clearml-injector/containers": "train=0.500,eval=0.125"}
    [task] = pod["spec"]["containers"]
    reads = {"command": ["sh", "-c", f"echo ${LIMIT} $(ls /dev/nvidia[0-9])"]}
    asks = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod["spec"]["initContainers"] = [{**task, **reads, **asks, "name": "warm"}]
    pod["spec"]["containers"] = [{**task, "name": name} for name in ("train", "eval")]
    pods.create_as_it_is(pod)
    pods.until_running("shared")
    card = pods.card("shared")
    for name, eighths in (("train", 4), ("eval", 1)):
        found = inside(cluster, "shared", "sh", "-c", f"echo ${LIMIT} $(ls /dev/nvidia[0-9])", container=name)
        assert found.split() == [f"{SIZES[card] * eighths // 8}m", card]
    warm = cluster.kubectl("logs", f"--namespace={WORK}", "shared", "--container=warm").stdout
    assert warm.split() == [f"{SIZES[card] // 2}m", card]
    parts = {"train": (SIZES[card] // 2, 0), "eval": (SIZES[card] // 8, 0)}
    eventually(lambda: measured(cluster, "shared") == parts, "the GpuNode has both containers", MEASURED_S)
    share = eventually(lambda: used(cluster).get("shared"), "the ledger has the pod")
    mib = SIZES[card] * 5 // 8
    assert (share["memoryMiB"], share["usedMiB"]) == (mib, 0)
    assert (share["claimedMiB"], share["cardMiB"]) == (mib, SIZES[card])


def test_what_a_process_uses_is_seen_from_the_driver_to_the_command_line(installation, cluster, pods):
    pods.run("training", "0.500")
    process = RunningProcess(pid_of(cluster, cluster.api.get("Pod", "training", WORK)), 4096, 30)
    card = list(SIZES).index(pods.card("training"))
    using = [replace(gpu, processes=(process,) if gpu.minor == card else ()) for gpu in GPUS]
    cluster.nodes[NODE].agent.write_gpus(using)
    mib = GPUS[card].memory_mib // 2
    said = lambda: measured(cluster, "training") == {"main": (mib, 4096)}  # noqa: E731
    eventually(said, "the GpuNode says what is used", MEASURED_S)
    [agent] = installation.objects("agent")
    asking = ASK.format(agent["status"]["podIP"])
    found = installation.exec(agent["metadata"]["name"], "python3", "-c", asking).stdout
    labels = f'{{container="main",gpu="{card}",namespace="{WORK}",pod="training"}}'
    series = dict(line.rsplit(" ", 1) for line in found.splitlines() if line[:1] not in {"", "#"})
    assert float(series[f"fraction_injector_agent_container_memory_used_bytes{labels}"]) == 4096 * 2**20
    assert 0 < float(series[f"fraction_injector_agent_container_utilisation_ratio{labels}"]) <= 0.3
    eventually(lambda: used(cluster).get("training", {}).get("usedMiB") == 4096, "the ledger has it")
    assert f"4096 of {mib}" in run(cluster, "ledger", "--use")
    assert f"4096 of {mib} MiB" in run(cluster, "why", "training", "--namespace", WORK)
