"""fraction-injector demo that stays up: the line that it asks you to try, and what it leaves behind."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from cli.demonstration import _show
from testbed.process import WAIT_S
from tests.cli.commands.test_demo import answers
from tests.cli.running import CHECKOUT, COMMAND, ENVIRONMENT


def demo(*arguments, **environment):
    return subprocess.run(
        [*COMMAND, "demo", *arguments],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=os.environ | ENVIRONMENT | environment,
        timeout=WAIT_S,
        check=False,
    )


NOT_INSTALLED = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"{{name}} is not in requirements/demo.txt")

sys.meta_path.insert(0, NotInstalled())
"""


def locked(name):
    text = (CHECKOUT / "requirements" / f"{name}.txt").read_text()
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


@pytest.fixture
def first_packages(tmp_path):
    """An environment in which only the packages can be imported that `make demo` installs first."""
    later = locked("runtime") - locked("demo")
    assert "kubernetes" in later
    modules = {
        module
        for module, owners in packages_distributions().items()
        if {owner.lower().replace("_", "-") for owner in owners} <= later
    }
    (tmp_path / "sitecustomize.py").write_text(NOT_INSTALLED.format(modules=modules))
    return {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}


def is_listening(port):
    try:
        with socket.create_connection(("127.0.0.1", int(port)), WAIT_S):
            return True
    except ConnectionRefusedError:
        return False


def test_its_webhook_decides_its_pods_and_is_gone_at_the_end(first_packages):
    shown = demo(**first_packages)
    assert (shown.returncode, shown.stderr) == (0, "")
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        _show(answers(), serve=False)
    assert shown.stdout.endswith(stream.getvalue())
    (port,) = re.findall(r"https://localhost:(\d+)/mutate, with a CA", shown.stdout)
    assert not is_listening(port)


class Serving:
    """A demo that stays up; in a process group of its own, as in a terminal."""

    def __init__(self):
        self.process = subprocess.Popen(
            [*COMMAND, "demo", "--serve"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env=os.environ | ENVIRONMENT,
            start_new_session=True,
        )
        self.said = ""
        while "--data" not in self.said and (line := self.process.stdout.readline()):
            self.said += line
        (self.port,) = re.findall(r"https://localhost:(\d+)/mutate\s*$", self.said)

    def curl(self):
        """The printed command, as a shell would read it."""
        return shlex.split(self.said[self.said.index("curl ") :].replace("\\\n", " "))

    def end(self, kill, number):
        kill(self.process.pid, number)
        _, errors = self.process.communicate(timeout=WAIT_S)
        assert "Traceback" not in errors
        return self.process.returncode


@pytest.fixture
def serving():
    started = Serving()
    yield started
    if started.process.returncode is None:
        started.end(os.killpg, signal.SIGTERM)


def test_the_printed_curl_line_works_and_ctrl_c_leaves_no_process_and_no_file(serving):
    curl = serving.curl()
    assert shutil.which("curl") is not None, "the demo prints a curl command: install curl"
    answered = subprocess.run([*curl, "--silent"], capture_output=True, check=True, timeout=WAIT_S)
    response = json.loads(answered.stdout)["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    folder = Path(curl[curl.index("--cacert") + 1]).parent
    assert (is_listening(serving.port), folder.is_dir()) == (True, True)
    assert serving.end(os.killpg, signal.SIGINT) == 0
    assert (is_listening(serving.port), folder.exists()) == (False, False)


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = demo("--port", str(port))
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ended.stderr
