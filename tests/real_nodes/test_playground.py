"""Real nodes are of one release."""

import os
import subprocess
import sys


def test_no_kubelet_is_started_for_a_control_plane_of_another_release(pytestconfig):
    ended = subprocess.run(
        [sys.executable, "-m", "testbed.nodes.playground"],
        cwd=pytestconfig.rootpath,
        env=os.environ | {"K8S": "1.30"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    refusal = "real nodes are of Kubernetes 1.37.2, and K8S asks for 1.30.14\n"
    assert (ended.returncode, ended.stderr) == (1, refusal)
