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

from tests.webhook.support import FIXTURES

CHECKOUT = Path(__file__).parent.parent.parent
MAX_SECONDS = 120
"""After this long a test has failed; none waits so long when all is well."""


class Running:
    """A webhook process; everything it says is kept."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=CHECKOUT)
        self.stderr = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        serving = self.wait_for(lambda event: event["event"] == "serving")
        self.port = serving["port"]
        self.health_port = serving["health_port"]

    def _read(self):
        for line in self.process.stderr:
            with self._said:
                self.stderr.append(line.decode())
                self._said.notify_all()
        with self._said:
            self._said.notify_all()

    def events(self):
        return [json.loads(line) for line in self.stderr if line.startswith("{")]

    def wait_for(self, wanted, number=1):
        """The `number`th log line of a kind, as soon as it is there."""
        with self._said:
            ended = self._said.wait_for(
                lambda: len([e for e in self.events() if wanted(e)]) >= number or not self._reader.is_alive(),
                MAX_SECONDS,
            )
            found = [event for event in self.events() if wanted(event)]
        assert ended, "".join(self.stderr)
        assert len(found) >= number, "".join(self.stderr)
        return found[number - 1]

    def stop(self, number=signal.SIGTERM):
        """Exit status after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(MAX_SECONDS)
        self._reader.join(MAX_SECONDS)
        self.process.stderr.close()
        return status


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


def client(running):
    return httpx.Client(
        base_url=f"https://localhost:{running.port}",
        verify=running.trust,
        trust_env=False,
        timeout=MAX_SECONDS,
    )


def connect(running, host="localhost"):
    plain = socket.create_connection((host, running.port), MAX_SECONDS)
    return running.trust.wrap_socket(plain, server_hostname=host)


def raw(running, request):
    """What comes back for bytes until the server closes."""
    with connect(running) as connection:
        connection.sendall(request)
        return read_all(connection)


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


def until(condition):
    """Wait for what nothing tells us of."""
    pause = threading.Event()
    for _ in range(MAX_SECONDS * 50):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come to pass")


def secret(authority, leaf):
    """Files of a Secret that holds a certificate."""
    return {
        "ca.crt": authority.certificate_pem,
        "tls.crt": leaf.certificate_pem,
        "tls.key": leaf.key_pem,
    }
