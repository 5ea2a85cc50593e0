"""The control plane itself: what every other test here builds upon."""

import json
import socket
from pathlib import Path

import pytest

from testbed.api import ApiError
from testbed.cluster import Cluster
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import ProcessError, eventually


def pod(name, slices=4, **annotations):
    resources = {"limits": {"nvidia.com/gpu-1": str(slices)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "task", "image": "example.com/task:1", "resources": resources}]},
    }


@pytest.mark.oldest_kubernetes
def test_the_api_server_and_kubectl_say_their_version(kubectl):
    answer = kubectl("version", "--output=json")
    assert (answer.code, answer.stderr) == (0, "")
    versions = json.loads(answer.stdout)
    assert versions["serverVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"
    assert versions["clientVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"


def test_the_scheduler_places_slices_of_one_gpu_until_it_is_full(control_plane, namespace, nodes):
    [node] = nodes(GpuNode(gpus=2))
    for name in ("first", "second", "third"):
        control_plane.api.create(pod(name), namespace)

    def phases():
        found = control_plane.api.list("Pod", namespace)
        return sorted(
            (item["status"]["phase"], item["spec"].get("nodeName")) for item in found if settled(item)
        )

    expected = [("Pending", None), ("Running", node), ("Running", node)]
    eventually(lambda: phases() == expected, "two of three halves run and the third waits")


def settled(item):
    """Whether it runs, or the scheduler has looked at it and found no place."""
    conditions = item["status"].get("conditions", [])
    refused = any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)
    return item["status"]["phase"] == "Running" or refused


def test_kubectl_apply_of_a_plain_pod_leaves_stderr_empty(kubectl, namespace):
    answer = kubectl("apply", "--filename=-", stdin=json.dumps(pod("plain")))
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/plain created\n", "")


def test_a_job_makes_a_pod_that_runs_and_ends(control_plane, namespace, nodes):
    nodes(GpuNode(gpus=2))
    template = pod("", **{"control-plane.test/ends": "true"})
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "template": {
            "metadata": {"annotations": template["metadata"]["annotations"]},
            "spec": template["spec"],
        }
    }
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": job}
    control_plane.api.create(manifest, namespace)

    def succeeded():
        return control_plane.api.get("Job", "job", namespace, "batch/v1")["status"].get("succeeded")

    assert eventually(succeeded, "the Job has succeeded") == 1


def test_a_deleted_pod_leaves_its_node(control_plane, namespace, nodes):
    nodes(GpuNode(gpus=2))
    control_plane.api.create(pod("first", slices=8), namespace)
    eventually(lambda: settled(control_plane.api.get("Pod", "first", namespace)), "the first runs")
    answer = control_plane.kubectl(f"--namespace={namespace}", "delete", "pod", "first")
    assert (answer.code, answer.stderr) == (0, "")
    assert control_plane.api.list("Pod", namespace) == []


def test_a_dry_run_is_answered_and_leaves_nothing(control_plane, namespace):
    made = control_plane.api.create(pod("dry"), namespace, dry_run=True)
    assert made["metadata"]["name"] == "dry"
    with pytest.raises(ApiError, match='pods "dry" not found') as refused:
        control_plane.api.get("Pod", "dry", namespace)
    assert refused.value.code == 404


def test_a_closed_cluster_leaves_no_process_and_no_port(built: Path, tmp_path: Path):
    with Cluster(built, tmp_path) as cluster:
        processes = list(cluster.processes)
        names = [process.log.stem for process in processes]
        assert names == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
        assert [process.exit_code for process in processes] == [None] * 5
    assert not [process.log.stem for process in processes if Path(f"/proc/{process.pid}").exists()]
    port = int(cluster.url.rsplit(":", 1)[1])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_cluster_that_cannot_start_shows_the_log_and_leaves_nothing(built: Path, tmp_path: Path):
    (tmp_path / "etcd").write_text("in the way of the data folder")
    cluster = Cluster(built, tmp_path)
    with pytest.raises(ProcessError, match=r"etcd ended with 1:\n(.|\n)*not a directory"):
        cluster.__enter__()
    assert cluster.processes == []
