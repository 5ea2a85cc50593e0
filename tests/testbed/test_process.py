"""Nothing that the control plane starts may outlive it, whatever happens."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from testbed.process import (
    Process,
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
