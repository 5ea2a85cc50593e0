"""A test run that goes wrong takes its control plane with it."""

import os
import signal
import subprocess
import sys

from testbed.process import eventually
from tests.testbed.test_process import gone

RUN = """
import os, pathlib, signal

def test_is_killed(control_plane):
    pathlib.Path("pids").write_text(" ".join(str(process.pid) for process in control_plane.processes))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_a_run_that_was_killed(built, tmp_path, pytestconfig):
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "test_run.py").write_text(RUN)
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
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 5
    eventually(lambda: all(gone(pid) for pid in pids), "every process of the run is gone")
