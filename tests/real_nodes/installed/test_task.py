"""A labelled pod in its container: environment, mounts and devices are what `explain` predicted."""

import json
import subprocess

import pytest
import yaml

from testbed.gpu_nodes import GpuNode
from testbed.nodes.stub_images import LIBRARY_TEXT
from testbed.process import eventually
from testbed.product import COMMAND
from tests.real_nodes.load import task
from tests.real_nodes.pods import WORK, environment, inside

MEMORY_MIB = GpuNode().memory_mib


@pytest.fixture
def predicted(installation, cluster, tmp_path):
    """What `explain` says, given the cluster's policies and nodes: the container as it will be stored."""

    def explain(pod):
        policies = tmp_path / "policies"
        policies.mkdir()
        config = cluster.api.get("ConfigMap", "fraction-injector-policies", "gpu-fraction-injector")
        for name, text in config["data"].items():
            (policies / name).write_text(text)
        inventory = tmp_path / "inventory.yaml"
        found = [node for node in cluster.api.list("Node") if node["metadata"]["name"] in cluster.nodes]
        items = [{"apiVersion": "v1", "kind": "Node", **node} for node in found]
        inventory.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
        (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
        options = [f"--policies={policies}", f"--inventory={inventory}", "--output=json"]
        command = [COMMAND, "explain", *options, str(tmp_path / "pod.yaml")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)[0]

    return explain


@pytest.fixture
def running(installation, cluster):
    """Create a pod and wait until it runs; it is gone when the test ends."""
    created = []

    def run(pod):
        name = pod["metadata"]["name"]
        created.append(name)
        cluster.api.create(pod, WORK)
        started = {"Running", "Succeeded", "Failed"}
        eventually(
            lambda: cluster.api.get("Pod", name, WORK)["status"].get("phase") in started,
            f"{name} is started",
        )
        stored = cluster.api.get("Pod", name, WORK)
        assert stored["status"]["phase"] == "Running", stored["status"]
        return stored

    yield run
    for name in created:
        cluster.api.delete("Pod", name, WORK)


def test_a_container_is_what_explain_predicted(predicted, running, cluster):
    pod = task("half", "0.500")
    expected = predicted(pod)
    stored = running(pod)
    [container] = stored["spec"]["containers"]
    [foreseen] = expected["pod"]["spec"]["containers"]
    assert container["env"] == foreseen["env"]
    assert container["resources"] == foreseen["resources"]
    assert container["volumeMounts"] == foreseen["volumeMounts"]

    variables = environment(cluster, "half")
    assert variables.items() >= {(entry["name"], entry["value"]) for entry in foreseen["env"]}
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{expected['memoryMiB']}m"
    assert variables["FROM_IMAGE"] == "yes"
    assert 0.4 < expected["memoryMiB"] / MEMORY_MIB <= 0.5

    index = expected["index"]
    assert inside(cluster, "half", "sh", "-c", "ls /dev/nvidia*").split() == [f"/dev/nvidia{index}"]
    assert cluster.held_slices()[WORK, "half", f"nvidia.com/gpu-{index}"] == expected["slices"] == 4


def test_the_limiters_library_is_there_to_be_read_and_no_more(predicted, running, cluster):
    pod = task("limited", "0.250")
    expected = predicted(pod)
    running(pod)
    mounts = {
        line.split()[1]: line.split()[3].split(",")
        for line in inside(cluster, "limited", "cat", "/proc/mounts").splitlines()
    }
    [foreseen] = expected["pod"]["spec"]["containers"]
    for mount in foreseen["volumeMounts"]:
        assert ("ro" if mount.get("readOnly") else "rw") in mounts[mount["mountPath"]]
    [preloaded] = [entry["value"] for entry in foreseen["env"] if entry["name"] == "LD_PRELOAD"]
    assert inside(cluster, "limited", "cat", preloaded) == LIBRARY_TEXT.decode()
    cache = next(e["value"] for e in foreseen["env"] if e["name"] == "CUDA_DEVICE_MEMORY_SHARED_CACHE")
    inside(cluster, "limited", "touch", cache)
