"""No traceback, whatever the terminal: its encoding, its width, and a reader that leaves."""

import os
import subprocess
import sys

import pytest

from cli.standard_streams import CANNOT_WRITE
from testbed.process import WAIT_S
from tests.cli.running import CHECKOUT, COMMAND


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


@pytest.mark.parametrize("closed", ["1>&-", "1>&- 2>&-"])
def test_streams_that_are_closed_from_the_start_are_no_error(closed):
    command = ["bash", "-c", f"{sys.executable} -m cli.main policy show {closed}"]
    shown = subprocess.run(command, capture_output=True, cwd=CHECKOUT, timeout=WAIT_S, check=False)
    assert (shown.returncode, shown.stderr) == (0, b"")


def test_a_full_disk_is_one_line_and_a_status_of_its_own():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 a device
        shown = ended("policy", "show", stdout=full)
    assert shown.returncode == CANNOT_WRITE
    assert shown.stderr == b"fraction-injector: cannot write: No space left on device\n"
