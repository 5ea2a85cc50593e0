"""fraction-injector demo: what it shows, what it leaves behind, and the line that it asks you to try."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest

from tests.cli.running import CHECKOUT, COMMAND, ENVIRONMENT, run

pytestmark = pytest.mark.slow

SECONDS = 120


def is_listening(port):
    try:
        with socket.create_connection(("127.0.0.1", int(port)), SECONDS):
            return True
    except ConnectionRefusedError:
        return False


@pytest.fixture(scope="module")
def shown():
    ended = run("demo")
    assert (ended.returncode, ended.stderr.count("inventory:")) == (0, 0)
    return ended.stdout


def test_each_pod_has_its_row(shown):
    rows = re.findall(r"^(\S+) +(\S+) +(injected|denied|untouched)(.*?) *$", shown, re.MULTILINE)
    decisions = [(label, decision) for _, label, decision, _ in rows]
    assert decisions == [
        ("0.500", "injected"),
        ("0.250", "injected"),
        ("0.500", "injected"),
        ("0.875", "injected"),
        ("0.375", "injected"),
        ("0.625", "injected"),
        ("0.125", "injected"),
        ("0.5", "denied"),
        ("-", "untouched"),
    ]
    for _, label, decision, rest in rows:
        if decision == "injected":
            slices = round(float(label) * 8)
            assert re.search(rf"nvidia\.com/gpu-\d: {slices} +\d+ \S+$", rest)


def test_the_picture_draws_every_slice_and_says_who_holds_it(shown):
    drawn = re.findall(r"GPU \d+  ▕(.*)▏ (\d+) of 8$", shown, re.MULTILINE)
    assert len(drawn) == 15
    for slices, used in drawn:
        cells = slices.split()
        assert len(cells) == 8
        assert sum(cell != "·" for cell in cells) == int(used)
    letters = {cell for slices, _ in drawn for cell in slices.split()} - {"·"}
    assert set(re.findall(r"^ +([A-Z])  \S", shown, re.MULTILINE)) == letters
    assert sum(int(used) for _, used in drawn) == 4 + 2 + 4 + 7 + 3 + 5 + 1


def test_the_denial_and_the_untouched_pod_are_shown(shown):
    assert 'denied     typo: clearml-injector/fraction "0.5" is not allowed: use 0.125, ' in shown
    assert '(did you mean "0.500"?)' in shown
    assert "untouched  postgres: it has no label, so nothing was changed" in shown


def test_what_to_try_next_works(shown):
    commands = re.findall(r"fraction-injector (.*)$", shown.partition("\nNext")[2], re.MULTILINE)
    assert commands == ["explain examples/demo/pods.yaml", "demo --serve", "webhook --help"]
    assert run(*commands[0].split()).returncode == 1
    assert run(*commands[2].split()).returncode == 0


def test_the_webhook_is_gone_at_the_end(shown):
    (port,) = re.findall(r"https://localhost:(\d+)/mutate, with a CA", shown)
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
            env=ENVIRONMENT,
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
        _, errors = self.process.communicate(timeout=SECONDS)
        assert "Traceback" not in errors
        return self.process.returncode


@pytest.fixture
def serving():
    started = Serving()
    yield started
    if started.process.returncode is None:
        started.end(os.killpg, signal.SIGTERM)


def test_the_printed_curl_line_works(serving):
    curl = serving.curl()
    assert shutil.which("curl") is not None, "the demo prints a curl command: install curl"
    answered = subprocess.run([*curl, "--silent"], capture_output=True, check=True, timeout=SECONDS)
    response = json.loads(answered.stdout)["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")


@pytest.mark.parametrize(
    ("kill", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)],
    ids=["Ctrl-C", "terminated"],
)
def test_it_ends_cleanly_and_leaves_no_process_and_no_file(serving, kill, number):
    folder = os.path.dirname(serving.curl()[serving.curl().index("--cacert") + 1])  # noqa: PTH120 a name only
    assert is_listening(serving.port)
    assert os.path.isdir(folder)  # noqa: PTH112 the same
    assert serving.end(kill, number) == 0
    assert not is_listening(serving.port)
    assert not os.path.exists(folder)  # noqa: PTH110 the same


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("demo", "--port", port)
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ended.stderr
