"""Where no node can be made these tests are skipped, and say why; in CI that is a failure."""

import os
import subprocess
import sys

import pytest

REASON = "the control plane is built with Go 1.26 or newer, and there is no `go` on PATH"


@pytest.fixture
def run_without_go(tmp_path, pytestconfig):
    """Run a test that passes, with this folder's fixtures, where there is no Go."""
    (tmp_path / "test_run.py").write_text("def test_passes(): pass")

    def run(**environment):
        kept = {name: value for name, value in os.environ.items() if name != "CI"}
        kept |= {"PATH": str(tmp_path), "PYTHONPATH": str(pytestconfig.rootpath)}
        plugin = ("-p", "tests.cluster.conftest")
        command = [sys.executable, "-m", "pytest", *plugin, "--rootdir=.", "-rs", "test_run.py"]
        return subprocess.run(
            command, cwd=tmp_path, env=kept | environment, capture_output=True, text=True, check=False
        )

    return run


def test_the_reason_is_printed(run_without_go):
    ended = run_without_go()
    assert ended.returncode == 0
    assert REASON in ended.stdout
    assert "1 skipped in" in ended.stdout


def test_in_ci_it_is_a_failure(run_without_go):
    ended = run_without_go(CI="true")
    assert ended.returncode == 1
    assert f"CI must run these tests: {REASON}" in ended.stdout
