"""A running webhook's end."""

import json
import signal
import socket

from testbed.process import eventually
from tests.webhook.running import MAX_SECONDS, client, connect, event, head, read_all, webhook
from tests.webhook.support import pod, review_of

BODY = json.dumps(review_of(pod(fraction=None))).encode()


def is_refused(running):
    try:
        with socket.create_connection(("127.0.0.1", running.port), MAX_SECONDS):
            return False
    except ConnectionRefusedError:
        return True


def test_a_signal_drains_unready_first_and_another_ends_it_and_no_request_is_lost(tmp_path):
    """Ctrl-C is one like SIGTERM."""
    with webhook(tmp_path, stop_delay=MAX_SECONDS) as running, connect(running) as slow:
        with client(running) as http:
            assert http.get("/readyz").status_code == 200
            running.process.send_signal(signal.SIGINT)
            running.wait_for(event("stopping"))
            response = http.get("/readyz")
            assert response.status_code == 503
            assert "[-] serving: the process is stopping" in response.text
            assert http.get(f"http://127.0.0.1:{running.health_port}/readyz").status_code == 503
            assert http.get("/livez").status_code == 200
            assert http.post("/mutate", json=review_of(pod())).json()["response"]["allowed"]
        slow.sendall(head(len(BODY)) + BODY[:10])
        running.process.send_signal(signal.SIGTERM)
        eventually(lambda: is_refused(running), "new connections are refused")
        slow.sendall(BODY[10:])
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in answer.lower()
        slow.close()
        assert running.process.wait(MAX_SECONDS) == 0
    assert [found["event"] for found in running.events()][-1] == "stopped"
