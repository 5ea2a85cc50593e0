"""A webhook gets ready when it knows the nodes, and without a controller after a while."""

import ssl
import sys

import pytest

from testbed import plain_http
from testbed.controller_process import write_tls
from tests.webhook.running import Running, client, ending_well, event, replace, until
from tests.webhook.support import POLICIES, pod, review_of
from webhook.options import WebhookOptions
from webhook.placing.controller_wait import ControllerWait
from webhook.process import WebhookProcess

WAITING = "the controller has not sent its nodes yet: serving without it after 20 s"


class Situation:
    """A clock and a controller, both moved by the test."""

    def __init__(self):
        self.now = 100.0
        self.known = False
        self.wait = ControllerWait(lambda: self.known, 20.0, lambda: self.now)


def test_it_is_over_as_soon_as_the_nodes_are_known():
    at = Situation()
    assert at.wait.missing() == WAITING
    at.known = True
    assert at.wait.missing() is None


def test_it_is_over_after_a_while_without_a_controller():
    at = Situation()
    assert at.wait.missing() == WAITING
    at.now += 19.9
    assert at.wait.missing() == WAITING
    at.now += 0.1
    assert at.wait.missing() is None


def test_it_begins_when_it_is_first_asked():
    at = Situation()
    at.now += 3600
    assert at.wait.missing() == WAITING


def test_it_never_begins_again():
    at = Situation()
    at.known = True
    assert at.wait.missing() is None
    at.known = False
    assert at.wait.missing() is None


@pytest.fixture
def mounted(tmp_path):
    return write_tls(tmp_path / "tls")


def test_a_webhook_is_not_ready_before_its_controller_answers(mounted, tmp_path):
    made = []

    def readiness(folder):
        options = WebhookOptions(port=0, tls_directory=folder, controller="https://127.0.0.1:9")
        made.append(WebhookProcess(options, None))
        return made[-1]._process.readiness()["controller"]

    try:
        assert readiness(mounted) == WAITING
        assert readiness(tmp_path / "nothing") == "waits for the certificate"
    finally:
        for process in made:
            process._listeners[0].socket.close()


def test_a_process_gets_ready_without_a_controller_and_with_the_first_good_policies(mounted, tmp_path):
    directory = tmp_path / "policies"
    directory.mkdir()
    good = (POLICIES / "default.yaml").read_text()
    replace(directory / "default.yaml", good.replace("limiter:", "limitr:"))
    start = [sys.executable, "-m", "cli.main", "webhook", "--port=0", "--health-port=0", "--stop-delay=0"]
    start += [f"--tls-dir={mounted}", f"--policies={directory}"]
    start += ["--controller=https://127.0.0.1:9", "--controller-wait=0.1"]
    with ending_well(Running(start)) as running:
        running.trust = ssl.create_default_context(cafile=str(mounted / "ca.crt"))

        def ready():
            return plain_http.get(f"http://127.0.0.1:{running.health_port}/readyz")

        until(lambda: "[+] controller: ok" in ready().text)
        said = running.wait_for(lambda found: found["event"].startswith("serving before"))
        assert said["waited_seconds"] == 0.1
        assert ready().status_code == 503
        assert "[-] policies: default.yaml:" in ready().text
        assert "limitr" in ready().text
        with client(running) as http:
            answer = http.post("/mutate", json=review_of(pod())).json()["response"]
            assert (answer["allowed"], answer["auditAnnotations"]["reason"]) == (False, "policies-broken")
            assert http.post("/mutate", json=review_of(pod(fraction=None))).json()["response"]["allowed"]
        replace(directory / "default.yaml", good)
        running.wait_for(event("policies are in force"))
        until(lambda: ready().status_code == 200)
        # Whoever looks sees by what the webhook would place.
        assert "; the controller has not sent its nodes yet\n" in ready().text
