"""The commands of docs/getting-started/bare-metal.md and of README's section, word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.nvidia import library
from testbed.process import Process
from tests.product import ROOT
from tests.programs.baremetal.processes import Lab

PAGE = (ROOT / "docs/getting-started/bare-metal.md").read_text()
README = (ROOT / "README.md").read_text()
ELSEWHERE = {
    "--image half_gpu=docker.io": "pulls an image: test_container.py has one of its own",
    "--clearml": "needs a server: test_clearml_queues.py has one of its own",
}
"""Parts of commands that are not run here."""


def commands(text):
    """Lines of code blocks that call the product, as one types them."""
    found = re.findall(r"^    (?:\$ )?(?:\.venv/bin/)?(fraction-injector .*)$", text, re.MULTILINE)
    return [each for each in found if not any(part in each for part in ELSEWHERE)]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(
        "import time\nprint('step 1', flush=True)\ntime.sleep(1000)\n"
    )
    (tmp_path / "libvgpu.so").touch()
    made = Lab(tmp_path, 3)
    variables = library.environment(made.file) | {"FRACTION_INJECTOR_STATE": str(tmp_path / "state")}
    variables |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def serve(lab, command):
    served = lab.served()
    lab.runner = Process(["/bin/sh", "-c", f"exec {command}"], lab.log)
    lab.runner.until_ready(lambda: lab.served() > served, 120)


def typed(lab, command):
    """Run another command in the folder of the program; return what it prints."""
    called = subprocess.run(
        ["/bin/sh", "-c", command], cwd=lab.folder / "code", capture_output=True, text=True, check=False
    )
    assert (called.returncode, called.stderr) == (0, ""), command
    return called.stdout


def test_every_command_that_is_left_out_is_on_the_page():
    assert all(part in PAGE for part in ELSEWHERE)


def test_readme_has_commands_of_the_page():
    section = README.partition("## One machine, without Kubernetes")[2].partition("\n## ")[0]
    assert len(commands(section)) == 2
    assert set(commands(section)) <= set(commands(PAGE))


def test_a_newcomer_types_the_commands_of_the_page(lab):
    run, submit, tasks, logs, cancel, retry, with_library = commands(PAGE)
    assert "`machine ledger`" in PAGE
    serve(lab, run)
    assert typed(lab, submit) == "1\n"
    lab.until(lambda found: found[1].state == "running", "it runs")
    assert as_printed(typed(lab, tasks)) in as_printed(re.sub("^    ", "", PAGE, flags=re.MULTILINE))
    assert "tasks/1: 4" in typed(lab, "fraction-injector machine ledger")
    assert "ok       all 3 GPUs are in service" in typed(lab, "fraction-injector machine doctor")
    with subprocess.Popen(["/bin/sh", "-c", logs], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout.readline() == "step 1\n"
        assert typed(lab, cancel) == ""
        assert following.wait() == 0
    assert typed(lab, retry) == "2\n"
    lab.kill()
    serve(lab, with_library.replace("~/hami", str(lab.folder)))
    assert "warning" not in typed(lab, tasks)


def as_printed(text):
    """A list of tasks without what differs from machine to machine."""
    without_host = re.sub(r"^\S+: (?=[0-9.]+ of)", "", text, flags=re.MULTILINE)
    return re.sub(r"[0-9]:[0-9]{2}:[0-9]{2}", "TIME", without_host)
