"""A labelled pod in its container: environment, mounts and devices are what `explain` predicted."""

import json
import subprocess

import yaml

from testbed.gpu_nodes import GpuNode
from testbed.nodes.stub_images import LIBRARY_TEXT
from testbed.process import eventually
from testbed.product import COMMAND
from tests.real_nodes.load import task
from tests.real_nodes.pods import WORK, environment, inside, phase

MEMORY_MIB = GpuNode().memory_mib


def predicted(cluster, folder, pod):
    """What `explain` says, given the cluster's policies and nodes: the container as it will be stored."""
    policies, inventory, manifest = (folder / name for name in ("policies", "inventory.yaml", "pod.yaml"))
    policies.mkdir()
    config = cluster.api.get("ConfigMap", "fraction-injector-policies", "gpu-fraction-injector")
    for name, text in config["data"].items():
        (policies / name).write_text(text)
    found = [node for node in cluster.api.list("Node") if node["metadata"]["name"] in cluster.nodes]
    items = [{"apiVersion": "v1", "kind": "Node", **node} for node in found]
    inventory.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    manifest.write_text(yaml.safe_dump(pod))
    options = [f"--policies={policies}", f"--inventory={inventory}", "--output=json"]
    command = [COMMAND, "explain", *options, str(manifest)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)[0]


def test_a_container_is_what_explain_predicted(installation, cluster, tmp_path):
    pod = task("half", "0.500")
    expected = predicted(cluster, tmp_path, pod)
    cluster.api.create(pod, WORK)
    eventually(lambda: phase(cluster, "half") == "Running", "it runs")
    [container] = cluster.api.get("Pod", "half", WORK)["spec"]["containers"]
    [foreseen] = expected["pod"]["spec"]["containers"]
    for field in ("env", "resources", "volumeMounts"):
        assert container[field] == foreseen[field]

    said = {entry["name"]: entry["value"] for entry in foreseen["env"]}
    variables = environment(cluster, "half")
    assert variables.items() >= said.items()
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{expected['memoryMiB']}m"
    assert variables["FROM_IMAGE"] == "yes"
    assert 0.4 < expected["memoryMiB"] / MEMORY_MIB <= 0.5

    index = expected["index"]
    assert inside(cluster, "half", "sh", "-c", "ls /dev/nvidia*").split() == [f"/dev/nvidia{index}"]
    assert cluster.held_slices()[WORK, "half", f"nvidia.com/gpu-{index}"] == expected["slices"] == 4

    lines = [line.split() for line in inside(cluster, "half", "cat", "/proc/mounts").splitlines()]
    mounts = {place: options.split(",") for _, place, _, options, *_ in lines}
    for mount in foreseen["volumeMounts"]:
        assert ("ro" if mount.get("readOnly") else "rw") in mounts[mount["mountPath"]]
    assert inside(cluster, "half", "cat", said["LD_PRELOAD"]) == LIBRARY_TEXT.decode()
    inside(cluster, "half", "touch", said["CUDA_DEVICE_MEMORY_SHARED_CACHE"])
    cluster.api.delete("Pod", "half", WORK)
