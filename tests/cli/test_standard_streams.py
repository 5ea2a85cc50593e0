"""No traceback, whatever the terminal: its encoding, its width, and a reader that leaves."""

import io
import os
import subprocess
import sys

import pytest

from cli.app import app
from cli.standard_streams import CANNOT_WRITE, standard_streams
from testbed.process import WAIT_S
from tests.cli.running import CHECKOUT, COMMAND

TERMINALS = [
    ("ascii", "strict", "1"),
    ("ascii", "surrogateescape", "80"),
    ("latin-1", "strict", "0"),
    ("utf-8", "strict", "1"),
]
POD = """
apiVersion: v1
kind: Pod
metadata: {name: "x-\u00e4-\u6f22-\U0001f600", labels: {clearml-injector/fraction: "0.5"}}
spec: {containers: [{name: a, image: "\u2588"}]}
"""
COMMANDS = [
    ["--help"],
    ["explain", "-"],
    ["explain", "-", "-o", "json"],
    ["explain", "--patch", "examples/demo/pods.yaml"],
    ["check", "policies", "charts/fraction-injector/values.yaml"],
    ["policy", "show"],
    ["policy", "schema", "--tables"],
    ["gpu-operator-values", "--gpus=1"],
    ["ledger", "--kubeconfig=missing-ä"],
    ["nothing-ä"],
]


@pytest.fixture
def written(monkeypatch):
    """What commands write to streams of an encoding, as a terminal of so many columns gives them."""
    monkeypatch.chdir(CHECKOUT)

    def written(action, encoding, errors="strict", columns="80"):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors) for _ in range(2)]
        text = io.TextIOWrapper(io.BytesIO(POD.encode()), encoding="utf-8")
        with monkeypatch.context() as patched:
            for name, stream in zip(("stdin", "stdout", "stderr"), (text, *streams), strict=True):
                patched.setattr(sys, name, stream)
            patched.setenv("COLUMNS", columns)
            with standard_streams():
                action()
        return [stream.buffer.getvalue() for stream in streams if not stream.flush()]

    return written


def command(*arguments):
    def end():
        with pytest.raises(SystemExit):
            app(arguments)

    return end


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_encoding_and_no_width_stops_a_command(arguments, written):
    for terminal in TERMINALS:
        assert any(written(command(*arguments), *terminal)), terminal


def ended(*arguments, environment=None, **streams):
    """A real process with these streams, at its end."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    environment = {**os.environ, **(environment or {})}
    command = [*COMMAND, *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, timeout=WAIT_S, check=False, **streams)


def test_a_process_writes_where_its_locale_knows_no_letters():
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    shown = ended("nothing-ä", environment=locale)
    assert (shown.returncode, shown.stdout, b"Traceback" in shown.stderr) == (2, b"", False)
    assert b"No such command" in shown.stderr


def test_a_reader_that_leaves_ends_the_command_silently():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        assert ended("policy", "schema", "--tables", stdout=closed).stderr == b""


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_streams_that_are_closed_from_the_start_are_no_error(closed):
    command = f"{sys.executable} -m cli.main policy show {closed}"
    shown = subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=CHECKOUT, timeout=WAIT_S, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, b"")


def test_a_full_disk_is_one_line_and_a_status_of_its_own():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 a device
        shown = ended("policy", "show", stdout=full)
    assert shown.returncode == CANNOT_WRITE
    assert shown.stderr == b"fraction-injector: cannot write: No space left on device\n"
