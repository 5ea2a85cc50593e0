"""The real webhook as a process of its own, started by the command line, and raw requests to it."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx

from certs.authority import make_authority
from certs.leaf import make_leaf
from testbed.certificate_files import write_pair
from testbed.process import WAIT_S
from tests.webhook.support import FIXTURES

CHECKOUT = Path(__file__).parent.parent.parent
MAX_SECONDS = WAIT_S


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


class ApiServer:
    """An API server's client certificate, and the file of its CA."""

    def __init__(self, folder):
        authority = make_authority(datetime.now(UTC))
        self._folder = folder
        self._pair = make_leaf(authority, ["api-server"], datetime.now(UTC))
        self.ca_file = folder / "client-ca.pem"
        self.ca_file.write_bytes(authority.certificate_pem)

    def trusting(self, ca_file):
        """What it shows to servers of a CA."""
        return _showing(ca_file, self._folder / "api-server", self._pair)

    def strangers(self, ca_file, *pairs):
        """Who shows no certificate, one of the same name of another CA, or another pair."""
        namesake = make_leaf(make_authority(datetime.now(UTC)), ["api-server"], datetime.now(UTC))
        yield ssl.create_default_context(cafile=str(ca_file))
        for pair in (namesake, *pairs):
            yield _showing(ca_file, self._folder / "stranger", pair)


def _showing(ca_file, folder, pair):
    trust = ssl.create_default_context(cafile=str(ca_file))
    trust.load_cert_chain(*write_pair(folder, pair))
    return trust


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


def until(condition):
    """Wait for what nothing tells us of."""
    pause = threading.Event()
    for _ in range(MAX_SECONDS * 50):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come to pass")


def replace(file, text):
    """Write as an editor does: never half a file."""
    coming = file.with_suffix(".coming")
    coming.write_text(text)
    coming.replace(file)


def secret(authority, leaf):
    """Files of a Secret that holds a certificate."""
    return {"ca.crt": authority.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
