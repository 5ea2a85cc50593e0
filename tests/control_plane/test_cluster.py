"""The control plane itself: its version, and that nothing of it is left."""

import json
import socket
from pathlib import Path

import pytest

from testbed.cluster import Cluster
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import ProcessError


@pytest.mark.oldest_kubernetes
def test_the_api_server_and_kubectl_say_their_version(kubectl):
    answer = kubectl("version", "--output=json")
    assert (answer.code, answer.stderr) == (0, "")
    versions = json.loads(answer.stdout)
    assert versions["serverVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"
    assert versions["clientVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"


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
