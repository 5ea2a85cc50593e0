"""A test run that goes wrong takes its control plane with it."""

import os
import subprocess
import sys

import pytest

from testbed.process import eventually
from tests.testbed.test_process import gone

RUN = """
import os, pathlib, signal

def test_goes_wrong(control_plane):
    pathlib.Path("pids").write_text(" ".join(str(process.pid) for process in control_plane.processes))
    {wrong}
"""
WRONG = {
    "failing": "assert control_plane is None",
    # A shell lets its background jobs ignore SIGINT, and their children inherit that.
    "interrupted": "signal.signal(2, signal.default_int_handler); signal.raise_signal(2)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize(("how", "code"), [("failing", 1), ("interrupted", 2), ("killed", -9)])
def test_no_process_outlives_a_run_that_was(how, code, built, tmp_path, pytestconfig):
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "test_run.py").write_text(RUN.format(wrong=WRONG[how]))
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.conftest",
            "-p",
            "tests.control_plane.conftest",
            "--rootdir=.",
            f"--basetemp={tmp_path / 'temp'}",
            "test_run.py",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(pytestconfig.rootpath)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 5
    eventually(lambda: all(gone(pid) for pid in pids), "every process of the run is gone")
    if how == "failing":
        assert "end of kube-apiserver.log" in ended.stdout
