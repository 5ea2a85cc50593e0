"""Where no node can be made these tests are skipped, and say why; in CI that is a failure."""

import os
import subprocess
import sys

from tests.without_go import REASON, run_without_go

CONFTEST = "tests.real_nodes.conftest"


def test_the_reason_is_printed(tmp_path, pytestconfig):
    ended = run_without_go(tmp_path, pytestconfig.rootpath, CONFTEST)
    assert ended.returncode == 0
    assert REASON in ended.stdout
    assert "1 skipped in" in ended.stdout


def test_in_ci_it_is_a_failure(tmp_path, pytestconfig):
    ended = run_without_go(tmp_path, pytestconfig.rootpath, CONFTEST, CI="true")
    assert ended.returncode == 1
    assert f"CI must run these tests: {REASON}" in ended.stdout


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
