"""A cluster leaves no process, mount, namespace, control group or file, however its run ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import binaries
from testbed.nodes import cgroups, parts, sandbox
from testbed.process import eventually

RUN = """
import sys
from pathlib import Path
from testbed.nodes.sandbox import Sandbox, Reaper
from testbed.nodes.parts import Parts
from testbed.nodes.cluster import RealCluster

with RealCluster(Path(sys.argv[1]), Parts(Path(sys.argv[2])), nodes=1, gpus=1) as cluster:
    print(cluster.home.folder, flush=True)
    {how}
"""
HOW = {
    "failed": "raise SystemExit('wrong')",
    "killed": "__import__('os').kill(__import__('os').getpid(), 9)",
}


@pytest.mark.parametrize("how", HOW)
def test_nothing_is_left_of_a_run_that(how, say, tmp_path, pytestconfig):
    arguments = [str(binaries.build(say)), str(parts.build(say).folder)]
    with subprocess.Popen(
        [sys.executable, "-c", RUN.format(how=HOW[how]), *arguments],
        env=os.environ | {"PYTHONPATH": str(pytestconfig.rootpath)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        printed, errors = run.communicate(timeout=120)
    folder = Path(printed.strip() or "/")
    assert folder.name.startswith("gpu-nodes-"), errors
    assert run.returncode == {"failed": 1, "killed": -signal.SIGKILL}[how]
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


def test_without_root_no_node_is_made(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert sandbox.why_not() == "real nodes are sandboxes of namespaces, which only root can make"


def test_without_its_tools_no_node_is_made(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.why_not() == "real nodes need the command `unshare`, and it is not on PATH"


def test_without_control_groups_no_node_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroups, "HIERARCHIES", tmp_path)
    assert "cgroup v1 hierarchies are needed" in sandbox.why_not()
