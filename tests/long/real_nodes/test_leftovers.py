"""A cluster leaves no process, mount, namespace, control group or file, however its run ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from testbed import binaries
from testbed.nodes import cgroups, parts
from testbed.process import eventually

RUN = """
import os, signal, sys
from pathlib import Path
from testbed.nodes.sandbox import Sandbox, Reaper
from testbed.nodes.parts import Parts
from testbed.nodes.cluster import RealCluster

with RealCluster(Path(sys.argv[1]), Parts(Path(sys.argv[2])), nodes=1, gpus=1) as cluster:
    print(cluster.home.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_of_a_run_that_was_killed(say, pytestconfig):
    arguments = [str(binaries.build(say)), str(parts.build(say).folder)]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        env=os.environ | {"PYTHONPATH": str(pytestconfig.rootpath)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        printed, errors = run.communicate(timeout=120)
    folder = Path(printed.strip() or "/")
    assert folder.name.startswith("gpu-nodes-"), errors
    assert run.returncode == -signal.SIGKILL
    eventually(lambda: not folder.exists(), "its folder is gone")
    assert groups_of(run.pid) == []
    eventually(lambda: processes_of(folder, run.pid) == [], "its processes are gone")
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def groups_of(pid):
    return list(cgroups.HIERARCHIES.glob(f"*/**/gpu-fraction-{pid}-*"))


def processes_of(folder, pid):
    """Processes that name the run's folder, in their command line or among their mounts."""
    return [
        process for process in Path("/proc").iterdir() if process.name.isdigit() and names(process, folder)
    ]


def names(process, folder):
    try:
        text = (process / "cmdline").read_text() + (process / "mountinfo").read_text()
    except OSError:
        return False
    return str(folder) in text
