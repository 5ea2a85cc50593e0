"""`make cluster`: up for a person, and gone without a trace."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.control_plane.process import Process, eventually


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_offers_eight_gpu_nodes_and_leaves_no_trace(built, tmp_path, end, monkeypatch, pytestconfig):
    monkeypatch.chdir(pytestconfig.rootpath)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = tmp_path / "playground.log"
    with Process([sys.executable, "-m", "tests.control_plane.playground"], log) as playground:
        playground.until_ready(lambda: "Ctrl-C takes it all down." in log.read_text(), 60)
        kubeconfig = Path(re.search(r"export KUBECONFIG=(\S+)", log.read_text())[1])
        kubectl = partial(run_kubectl, built / "kubectl", kubeconfig)
        assert kubectl("get", "nodes", "--output=name").split() == [f"node/gpu-{n}" for n in range(8)]
        pod = re.search(r"kubectl apply -f (\S+)", log.read_text())[1]
        assert kubectl("apply", "-f", pod) == "pod/half created\n"
        slices = "--output=jsonpath={.metadata.annotations.clearml-injector/slices}"
        assert kubectl("get", "pod", "half", slices) == "4"
        ready = kubectl("wait", "pod", "half", "--for=condition=Ready", "--timeout=30s")
        assert ready == "pod/half condition met\n"
        eventually(partial(half_is_published, kubectl), "a GpuLedger shows it")
        page = re.search(r"The ledger as a page: (\S+)", log.read_text())[1]
        assert 'title="default/half: 4"' in httpx.get(page, trust_env=False).text
        os.kill(playground.pid, end)
        eventually(lambda: playground.exit_code is not None, "the playground has ended")
        assert (playground.exit_code, log.read_text().splitlines()[-1]) == (0, "taken down")
    assert not kubeconfig.parent.exists()


def half_is_published(kubectl):
    used = kubectl("get", "gpuledgers", "--output=jsonpath={.items[*].status.used}")
    return sorted(used.split()) == ["0"] * 7 + ["4"]


def run_kubectl(program, kubeconfig, *arguments):
    environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}
    ended = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
    return ended.stdout
