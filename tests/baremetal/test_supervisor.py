"""The process that runs a command at most once, and what it leaves."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from baremetal import supervisor
from baremetal.supervisor import BEGUN, EXIT, JOB
from testbed.process import eventually

SHORTER = {
    "GRACE_SECONDS = 10\n": "GRACE_SECONDS = 1\n",
    "PAUSE_SECONDS = 60, 5\n": "PAUSE_SECONDS = 60, 1\n",
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """A supervisor that waits for a second, for tests that must wait until it is over."""
    text, file = Path(supervisor.__file__).read_text(), tmp_path_factory.mktemp("impatient") / "supervisor.py"
    for usual, shorter in SHORTER.items():
        assert text.count(usual) == 1
        text = text.replace(usual, shorter)
    file.write_text(text)
    return file


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*command, cleanup=(), env=None, folder="/", program=supervisor.__file__):
        job = {"command": command, "folder": folder, "env": env or dict(os.environ), "cleanup": cleanup}
        (tmp_path / JOB).write_text(json.dumps(job))
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", program, str(tmp_path)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def code(tmp_path):
    return json.loads((tmp_path / EXIT).read_text())["code"]


def shell(text):
    return "sh", "-c", text


def pids(file, count=1):
    """Wait for numbers that a command writes into a file."""

    def found():
        numbers = list(map(int, file.read_text().split())) if file.exists() else []
        return numbers if len(numbers) == count else None

    return eventually(found, "pids")


def is_alive(pid):
    return supervisor.stat_of(pid) is not None


@pytest.mark.parametrize(
    ("command", "folder", "why"),
    [
        ("no-such-program", "/", "No such file or directory"),
        ("true", "/no/such/folder", "No such file or directory"),
        ("/etc", "/", "Permission denied"),
        ("a\0b", "/", "execve: embedded null character in path"),
    ],
)
def test_a_command_that_cannot_be_started_says_why_in_its_log(start, tmp_path, command, folder, why):
    start(command, folder=folder).wait()
    said = f"fraction-injector: {command} cannot be started in {folder}: {why}\n"
    assert (tmp_path / "log").read_text() == said
    assert code(tmp_path) == 127


def test_the_command_gets_its_variables_its_folder_and_the_usual_signals(start, tmp_path):
    start(
        *shell('echo "$A $(pwd)"; yes | head -n 1'), env={"A": "b", "PATH": os.environ["PATH"]}, folder="/usr"
    ).wait()
    assert (tmp_path / "log").read_text() == "b /usr\ny\n"
    assert code(tmp_path) == 0


def test_of_many_that_start_at_once_one_runs(start, tmp_path):
    command = shell(f"echo ran >> {tmp_path}/ran")
    for process in [start(*command) for _ in range(8)]:
        process.wait()
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert {each.name for each in tmp_path.iterdir()} == {BEGUN, EXIT, JOB, "log", "ran"}


def test_what_the_command_leaves_behind_ends_with_it_also_in_sessions_of_its_own(start, tmp_path):
    daemon = (
        f"setsid sh -c 'sleep 1000 & echo $! $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids; wait' &"
    )
    start(*shell(f"{daemon} sleep 1000 & until test -e {tmp_path}/pids; do sleep 0.1; done"))
    left = pids(tmp_path / "pids", 2)
    eventually((tmp_path / EXIT).exists, "the end")
    assert not any(map(is_alive, left))


def test_sigterm_ends_the_command_which_may_clean_up(start, tmp_path):
    process = start(
        *shell(f"trap 'echo bye; exit 5' TERM; echo $$ > {tmp_path}/pids; while :; do sleep 0.1; done")
    )
    pids(tmp_path / "pids")
    process.send_signal(signal.SIGTERM)
    process.wait()
    assert code(tmp_path) == 5
    assert "bye" in (tmp_path / "log").read_text()


def test_asking_again_does_not_put_the_end_of_a_command_off(start, tmp_path, impatient):
    deaf = shell(f"trap '' TERM; echo $$ > {tmp_path}/pids; while :; do sleep 0.1; done")
    process = start(*deaf, program=impatient)
    pids(tmp_path / "pids")

    def ask():
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    eventually(ask, "SIGKILL comes although it is asked all the time")
    assert code(tmp_path) == -9


def test_the_command_ends_with_a_supervisor_that_is_killed(start, tmp_path):
    process = start(*shell(f"echo $$ > {tmp_path}/pids; exec sleep 1000"))
    [pid] = pids(tmp_path / "pids")
    process.kill()
    process.wait()
    eventually(lambda: not is_alive(pid), "the end of the command")
    assert not (tmp_path / EXIT).exists()


def test_a_container_is_removed_before_the_end_is_written(start, tmp_path):
    cleanup = shell(f"test ! -e {tmp_path}/{EXIT} && echo removed > {tmp_path}/removed")
    start("true", cleanup=cleanup).wait()
    assert ((tmp_path / "removed").read_text(), code(tmp_path)) == ("removed\n", 0)
    assert supervisor.removed(shell("echo 'Error: No such container: x' >&2; exit 1"))


def test_a_process_that_cannot_be_looked_at_has_not_ended(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "refused")))
    with pytest.raises(OSError, match="refused"):
        supervisor.stat_of(os.getpid())
    supervisor._kill_children()


def test_how_the_command_ended_is_written_once_the_disk_has_room_again(start, tmp_path, impatient):
    """A link to a full device stands in for a full disk: it refuses every byte."""
    waits = shell(f"echo $PPID > {tmp_path}/pids; until test -e {tmp_path}/go; do sleep 0.1; done")
    process = start(*waits, program=impatient)
    [supervisor_pid] = pids(tmp_path / "pids")
    full = tmp_path / f".{EXIT}.{supervisor_pid}"
    full.symlink_to("/dev/full")
    (tmp_path / "go").touch()
    eventually(lambda: not full.is_symlink(), "it tried")
    process.wait()
    assert code(tmp_path) == 0
