"""Floods over single connections, against the real process: its memory stays small, and it ends in time."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.webhook.running import MAX_SECONDS, client, connect, head, webhook
from tests.webhook.support import container, pod, review_of

MIB = 1024 * 1024


def is_alive(http):
    response = http.post("/mutate", json=review_of(pod(fraction=None), dryRun=True))
    return response.status_code == 200 and response.json()["response"]["allowed"]


def plain(running):
    return socket.create_connection(("127.0.0.1", running.health_port), MAX_SECONDS)


def resident(running):
    (line,) = [line for line in process_status(running).splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def process_status(running):
    return Path(f"/proc/{running.process.pid}/status").read_text()


def send_all(connection, text):
    """Whether the other side took it all."""
    try:
        connection.sendall(text)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("dial", [connect, plain])
def test_50_mib_of_pipelined_requests_are_not_kept(tmp_path, dial):
    with webhook(tmp_path) as running, client(running) as http, dial(running) as connection:
        assert is_alive(http)
        before = resident(running)
        send_all(connection, head(method="GET", path="/livez") * (50 * MIB // 60))
        assert is_alive(http)
        assert resident(running) - before < 10 * MIB


def test_bodies_held_at_their_last_byte_stay_within_the_memory_of_a_pod(tmp_path):
    body = json.dumps(review_of(pod(containers=[container(args=["x" * (6 * MIB)])]), dryRun=True)).encode()
    with webhook(tmp_path) as running, ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(connect(running))
            send_all(connection, head(len(body)) + body[:-1])
        with client(running) as http:
            assert is_alive(http)
        (line,) = [line for line in process_status(running).splitlines() if line.startswith("VmHWM:")]
        assert int(line.split()[1]) * 1024 < 200 * MIB


def test_a_process_ends_whatever_its_clients_do(tmp_path):
    """In time: otherwise a log line says that answers took too long."""
    with webhook(tmp_path) as running, ExitStack() as stack:
        for dial in (connect, plain):
            for text in (
                b"",
                head(method="GET", path="/livez") * (5 * MIB // 60),
                head(method="GET", path="/metrics"),
                head(1000) + b"{",
                head(1000)[:-2],
            ):
                send_all(stack.enter_context(dial(running)), text)
        stack.enter_context(socket.create_connection(("127.0.0.1", running.port), MAX_SECONDS))
        assert running.stop() == 0
        events = running.events()
        assert events[-1]["event"] == "stopped"
        assert [event for event in events if event["level"] in ("warning", "error")] == []
