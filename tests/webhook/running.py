"""The real webhook as a process of its own, started by the command line, and raw requests to it."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx

from testbed.process import WAIT_S, eventually
from tests.webhook.support import FIXTURES

CHECKOUT = Path(__file__).parent.parent.parent
MAX_SECONDS = WAIT_S


class Running:
    """A webhook process; everything it says is kept."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=CHECKOUT)
        self.stderr = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        serving = self.wait_for(event("serving"))
        self.port = serving["port"]
        self.health_port = serving["health_port"]

    def _read(self):
        for line in self.process.stderr:
            self.stderr.append(line.decode())

    def events(self):
        return [json.loads(line) for line in self.stderr if line.startswith("{")]

    def wait_for(self, wanted, number=1):
        """The `number`th log line of a kind, as soon as it is there."""

        def found():
            is_over = not self._reader.is_alive()
            listed = [event for event in self.events() if wanted(event)]
            assert len(listed) >= number or not is_over, "".join(self.stderr)
            return listed[number - 1 : number]

        return eventually(found, "a line of the log", MAX_SECONDS)[0]

    def stop(self, number=signal.SIGTERM):
        """Exit status after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(MAX_SECONDS)
        self._reader.join(MAX_SECONDS)
        self.process.stderr.close()
        return status


def event(name):
    """Whether a log line is of this event."""
    return lambda found: found["event"] == name


def command(*options, inventory=FIXTURES / "inventory.json"):
    start = [sys.executable, "-m", "cli.main", "webhook", "--port", "0", "--inventory", str(inventory)]
    return [*start, *map(str, options)]


@contextmanager
def webhook(folder, *options, stop_delay=0):
    """A self-signed webhook, that ends well."""
    ca_file = folder / "ca.pem"
    own = ("--self-signed", "--ca-file", ca_file, "--health-port", "0", "--stop-delay", stop_delay)
    with ending_well(Running(command(*own, *options))) as running:
        running.trust = ssl.create_default_context(cafile=str(ca_file))
        yield running


@contextmanager
def ending_well(running):
    """Stop it, and see that it never died, nor logged a traceback, nor anything but log lines."""
    try:
        yield running
        assert running.process.poll() is None or running.process.returncode == 0
    finally:
        status = running.stop()
    text = "".join(running.stderr)
    assert status == 0, text
    assert "Traceback" not in text
    assert all(line.startswith("{") for line in running.stderr), text


def client(running, trust=None):
    return httpx.Client(
        base_url=f"https://localhost:{running.port}",
        verify=trust or running.trust,
        trust_env=False,
        timeout=MAX_SECONDS,
    )


def connect(running, host="localhost"):
    plain = socket.create_connection((host, running.port), MAX_SECONDS)
    # Otherwise the kernel holds back what is sent until the server has acknowledged the handshake.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return running.trust.wrap_socket(plain, server_hostname=host)


def read_all(connection):
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def head(length=None, *, extra="", method="POST", path="/mutate"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n" + extra + "\r\n").encode()


def replace(file, text):
    """Write as an editor does: never half a file."""
    coming = file.with_suffix(".coming")
    coming.write_text(text)
    coming.replace(file)


def secret(authority, leaf):
    """Files of a Secret that holds a certificate."""
    return {"ca.crt": authority.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
