"""A pod that would take for ever, sent to a real webhook process: nobody else waits for it."""

import json
import select
import signal
import ssl
import sys
from pathlib import Path

from bench.oversized import SIZE, shapes
from tests.webhook.running import Running, client, connect, ending_well, head, until
from tests.webhook.support import FIXTURES, as_body, pod, review_of

PLANTED = """
import sys
from webhook import review
from webhook.rules import Rules
from webhook.worker import workers

begin, seconds = Rules.begin, float(sys.argv.pop(1))

def planted(self, request, resolved):
    while b"for-ever" in request.body:
        pass
    return begin(self, request, resolved)

Rules.begin = planted
review.DECIDE_SECONDS = 120.0
workers.cpu_seconds = lambda size: seconds

from cli.main import main
main()
"""
"""The webhook with a rule that never ends for one pod; its worker gets so many seconds of CPU."""
HOSTILE = as_body(review_of(pod(metadata={"name": "for-ever"}, affinity={}), namespace="hostile"))
"""With a rare field, so that the patch cache leaves it to the rules."""


def planted(folder, seconds):
    start = [sys.executable, "-c", PLANTED, str(seconds), "webhook", "--port", "0", "--stop-delay", "0"]
    start += ["--inventory", str(FIXTURES / "inventory.json"), "--health-port", "0"]
    start += ["--self-signed", "--ca-file", str(folder / "ca.pem")]
    running = Running(start)
    running.trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    return running


def send(connection, body):
    connection.sendall(head(len(body)) + body)


def received(connection):
    """The response to the one review of a connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536)
    answer, _, body = text.partition(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536)
    return json.loads(body)["response"]


def has_come(connection):
    return bool(connection.pending() or select.select([connection], [], [], 0)[0])


def test_everybody_else_is_answered_before_a_pod_that_never_ends_is_denied(tmp_path):
    with (
        ending_well(planted(tmp_path, seconds=2)) as running,
        connect(running) as hostile,
        client(running) as http,
    ):
        send(hostile, HOSTILE)
        for _ in range(20):
            assert http.get("/livez").status_code == 200
            other = http.post("/mutate", json=review_of(pod(), namespace="team", dryRun=True))
            assert other.json()["response"]["allowed"]
        assert not has_come(hostile)
        response = received(hostile)
        assert response["auditAnnotations"]["reason"] == "too-costly"
        assert "use fewer containers" in response["status"]["message"]
        metrics = http.get(f"http://127.0.0.1:{running.health_port}/metrics").text
    assert 'fraction_injector_worker_reviews_total{end="over-budget"} 1.0' in metrics
    (line,) = [event for event in running.events() if event.get("reason") == "too-costly"]
    assert (line["decision"], line["namespace"]) == ("denied", "hostile")
    assert "for-ever" not in "".join(running.stderr)


def test_one_namespace_has_no_worker_that_another_waits_for_in_vain(tmp_path):
    large = shapes()[0].make(SIZE)
    with ending_well(planted(tmp_path, seconds=0.5)) as running, connect(running) as other:
        hostile = [connect(running) for _ in range(5)]
        for connection in hostile:
            send(connection, HOSTILE)
        send(other, large)
        assert "uid" in received(other)
        assert not all(map(has_come, hostile))
        for connection in hostile:
            assert received(connection)["auditAnnotations"]["reason"] == "too-costly"
            connection.close()


def test_a_webhook_that_is_stopped_answers_what_a_worker_decides_and_leaves_no_worker(tmp_path):
    with ending_well(planted(tmp_path, seconds=1)) as running, connect(running) as hostile:
        send(hostile, HOSTILE)
        with client(running) as http:
            assert http.get("/livez").status_code == 200
        running.process.send_signal(signal.SIGTERM)
        assert received(hostile)["auditAnnotations"]["reason"] == "too-costly"
    assert [event["event"] for event in running.events()][-1] == "stopped"


def test_a_worker_ends_with_a_webhook_that_is_killed(tmp_path):
    running = planted(tmp_path, seconds=1)
    with connect(running) as hostile:
        send(hostile, HOSTILE)
        with client(running) as http:
            assert http.get("/livez").status_code == 200
        until(lambda: children(running.process.pid))
        (worker,) = children(running.process.pid)
        running.process.kill()
        assert running.stop() == -signal.SIGKILL
    until(lambda: not is_running(worker))


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
