"""`make cluster`: up for a person, and gone without a trace."""

import itertools
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml

from testbed import plain_http
from testbed.process import Process, eventually

README = Path(__file__).parents[2] / "README.md"
POD = "clearml-id-0c5d1e7a"


@pytest.fixture
def playground(built, tmp_path, monkeypatch, pytestconfig):
    """`make cluster`, up: its process and its log."""
    monkeypatch.chdir(pytestconfig.rootpath)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = tmp_path / "playground.log"
    with Process([sys.executable, "-m", "testbed.playground"], log) as process:
        process.until_ready(lambda: "Ctrl-C takes it all down." in log.read_text(), 200)
        yield process, log


def test_the_readme_leads_to_a_half_gpu_pod_and_ctrl_c_leaves_no_trace(playground, tmp_path):
    process, log = playground
    printed = log.read_text()
    shell = partial(run, exports_of(printed), tmp_path)
    assert shell("kubectl get nodes --output=name").split() == [f"node/gpu-{n}" for n in range(8)]
    install, *others = readme_commands()
    assert f"  {install}\n" in printed
    shell(install)
    eventually(lambda: "slices" in shell(f"{others[0]} --dry-run=server --output=yaml || true"), "it works")
    *_, pod = [shell(command) for command in others]
    assert yaml.safe_load(pod)["metadata"]["annotations"]["clearml-injector/slices"] == "4"
    eventually(partial(half_is_published, shell), "a GpuLedger shows it")
    page = re.search(r"The ledger as a page: (\S+)", printed)[1]
    assert "GPU fractions" in plain_http.get(page).text
    assert f'"slices":4,"namespace":"default","pod":"{POD}"' in rows_of(page)
    ends_without_a_trace(process, log, signal.SIGINT)


def ends_without_a_trace(process, log, end):
    """End the playground by a signal, and look for what it leaves."""
    kubeconfig = Path(re.search(r"KUBECONFIG=(\S+)", exports_of(log.read_text()))[1])
    assert kubeconfig.exists()
    os.kill(process.pid, end)
    eventually(lambda: process.exit_code is not None, "the playground has ended")
    assert (process.exit_code, log.read_text().splitlines()[-1]) == (0, "taken down")
    assert not kubeconfig.parent.exists()


def exports_of(printed):
    return re.search(r"^  export (.*)$", printed, re.MULTILINE)[1]


def rows_of(page):
    """What the page's stream sends of the nodes first."""
    with httpx.stream("GET", f"{page}stream", trust_env=False, timeout=60) as stream:
        return "".join(itertools.takewhile(lambda line: line != "event: whole", stream.iter_lines()))


def readme_commands():
    """The commands of the README's section on fake GPUs, one to a line."""
    section = README.read_text().partition("\n### On a cluster with fake GPUs\n")[2].partition("\n## ")[0]
    block = re.search(r"(?:^    .*\n)+", section, re.MULTILINE)[0]
    return [" ".join(command.split()) for command in block.replace("\\\n", "").splitlines()]


def half_is_published(shell):
    used = shell("kubectl get gpuledgers --output=jsonpath={.items[*].status.used}")
    return sorted(used.split()) == ["0"] * 7 + ["4"]


def run(exports, home, command):
    script = f"export {exports} HOME={home}\n{command}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
