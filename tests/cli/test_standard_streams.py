"""No traceback, whatever the terminal: its encoding, its width, and a reader that leaves."""

import os
import subprocess
import sys

import pytest

from cli.standard_streams import CANNOT_WRITE
from tests.cli.running import CHECKOUT, COMMAND

pytestmark = pytest.mark.slow
TERMINALS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "ascii:strict", "COLUMNS": "1"},
    {"PYTHONIOENCODING": "latin-1", "COLUMNS": "0"},
    {"PYTHONIOENCODING": "utf-8", "COLUMNS": "1", "LINES": "1"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
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


def run(arguments, environment, text=POD, **streams):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=text.encode(),
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
        **streams,
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_encoding_and_no_width_ends_in_a_traceback(arguments):
    for environment in TERMINALS:
        ended = run(arguments, environment)
        assert b"Traceback" not in ended.stderr, environment
        assert b"Error" not in ended.stderr.replace(b"Error: No such command", b""), environment
        assert ended.stdout or ended.stderr


def test_the_demo_draws_in_ascii_what_no_other_encoding_carries():
    for columns in ("1", "100"):
        ended = run(["demo"], {"PYTHONIOENCODING": "ascii", "COLUMNS": columns})
        assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr
    assert ended.stdout.isascii()
    assert b"typo" in ended.stdout


def test_json_is_ascii_and_keeps_every_character():
    import json  # noqa: PLC0415 beside its use

    ended = run(["explain", "-", "-o", "json"], {"PYTHONIOENCODING": "ascii"})
    [found] = json.loads(ended.stdout.decode("ascii"))
    assert found["pod"]["metadata"]["name"] == "x-ä-漢-😀"


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_leaves_ends_the_command_silently(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ended = run(arguments, {}, stdout=closed)
    assert b"Traceback" not in ended.stderr
    assert b"Broken pipe" not in ended.stderr
    assert b"Exception ignored" not in ended.stderr


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_streams_that_are_closed_from_the_start_are_no_error(closed):
    command = f"{sys.executable} -m cli.main policy show {closed}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=CHECKOUT, timeout=120, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_is_one_line_and_a_status_of_its_own():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 a device
        ended = run(["policy", "show"], {}, stdout=full)
    assert ended.returncode == CANNOT_WRITE
    assert ended.stderr == b"fraction-injector: cannot write: No space left on device\n"
