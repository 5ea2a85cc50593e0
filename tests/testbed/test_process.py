"""Nothing that the control plane starts may outlive it, whatever happens."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.process import (
    Process,
    ProcessError,
    eventually,
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
