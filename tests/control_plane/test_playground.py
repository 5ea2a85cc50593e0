"""`make cluster`: up for a person, and gone without a trace."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_plane.process import Process, eventually


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_offers_eight_gpu_nodes_and_leaves_no_trace(built, tmp_path, end, monkeypatch, pytestconfig):
    monkeypatch.chdir(pytestconfig.rootpath)
    log = tmp_path / "playground.log"
    with Process([sys.executable, "-m", "tests.control_plane.playground"], log) as playground:
        playground.until_ready(lambda: "Ctrl-C takes it all down." in log.read_text(), 60)
        kubeconfig = Path(re.search(r"export KUBECONFIG=(\S+)", log.read_text())[1])
        listed = subprocess.run(
            [built / "kubectl", "get", "nodes", "--output=name"],
            env={"KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert listed.stdout.split() == [f"node/gpu-{number}" for number in range(8)]
        os.kill(playground.pid, end)
        eventually(lambda: playground.exit_code is not None, "the playground has ended")
        assert (playground.exit_code, log.read_text().splitlines()[-1]) == (0, "taken down")
    assert not kubeconfig.parent.exists()
