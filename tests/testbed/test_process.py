"""Nothing that the control plane starts may outlive it, whatever happens."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.process import (
    LONGEST_PAUSE_S,
    POLL_S,
    Process,
    ProcessError,
    eventually,
    free_ports,
    lives,
    pause_after,
    start_on_free_ports,
)

SHELL = shutil.which("sh") or ""
SLEEP = shutil.which("sleep") or ""


SERVER = """
import socket, sys, time
try:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    raise SystemExit(error.strerror)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie, which only waits for its parent to ask, has."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_stop_ends_the_whole_group(tmp_path):
    log = tmp_path / "parent.log"
    process = Process([SHELL, "-c", f"{SLEEP} 600 & echo $!; wait"], log)
    child = int(eventually(lambda: log.read_text().strip(), "the shell has named its child"))
    process.stop()
    assert process.exit_code == -signal.SIGKILL
    assert gone(child)


LARGE_CHILD = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
memory = bytearray(b"x") * (1 << 29)
print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""


def test_what_a_large_child_listened_on_is_free_when_its_parent_was_stopped(tmp_path):
    log, child = tmp_path / "large.log", tmp_path / "child.py"
    child.write_text(LARGE_CHILD)
    with Process([SHELL, "-c", f"{sys.executable} {child}; true"], log) as process:
        port = int(eventually(lambda: log.read_text().strip(), "it listens"))
        process.stop()
        socket.create_server(("127.0.0.1", port)).close()
        assert not lives(process.pid)


def test_a_process_with_grace_ends_in_its_own_way(tmp_path):
    log = tmp_path / "polite.log"
    process = Process(
        [SHELL, "-c", f"trap 'echo bye; exit 3' TERM; echo up; while :; do {SLEEP} 0.05; done"],
        log,
        grace_s=20,
    )
    process.until_ready(lambda: "up" in log.read_text(), 20)
    process.stop()
    assert (process.exit_code, log.read_text()) == (3, "up\nbye\n")


def test_a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over(tmp_path):
    log = tmp_path / "stubborn.log"
    process = Process([SHELL, "-c", f"trap '' TERM; echo up; {SLEEP} 600"], log, grace_s=0.2)
    process.until_ready(lambda: "up" in log.read_text(), 20)
    process.stop()
    assert process.exit_code == -signal.SIGKILL


def test_a_process_does_not_outlive_a_parent_that_is_killed(tmp_path, monkeypatch, pytestconfig):
    monkeypatch.chdir(pytestconfig.rootpath)
    code = (
        "import pathlib, time; from testbed.process import Process\n"
        f"process = Process([{SLEEP!r}, '600'], pathlib.Path({str(tmp_path / 'orphan.log')!r}))\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.kill()
    eventually(lambda: gone(child), "the child is gone")


def test_an_early_end_is_reported_with_the_log(tmp_path):
    with (
        Process([SHELL, "-c", "echo no such luck; exit 7"], tmp_path / "early.log") as process,
        pytest.raises(ProcessError, match=r"^early ended with 7:\nno such luck$"),
    ):
        process.until_ready(lambda: False, 20)


def test_a_taken_port_is_answered_with_another(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        offered = []

        def start(ports):
            offered.append(taken if not offered else ports[0])
            return Process([sys.executable, "-c", SERVER, str(offered[-1])], tmp_path / "server.log")

        process, ports = start_on_free_ports(1, start, lambda ports: connects(ports[0]) and offered[1:], 20)
    with process:
        assert offered == [taken, *ports]


def connects(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_free_ports_are_all_different():
    assert len(set(free_ports(20))) == 20


def test_a_process_that_has_ended_by_itself_can_be_stopped(tmp_path):
    process = Process([SHELL, "-c", "exit 4"], tmp_path / "ended.log", grace_s=20)
    eventually(lambda: process.exit_code is not None, "it has ended")
    process.stop()
    assert process.exit_code == 4


def test_looks_get_rarer_the_longer_the_wait_and_put_it_off_by_a_twentieth_at_most():
    assert [pause_after(waited) for waited in (0, 1, 2, 4)] == [POLL_S, POLL_S, 0.1, 0.2]
    assert pause_after(3600) == LONGEST_PAUSE_S
