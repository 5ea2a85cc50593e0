"""A webhook gets ready when it knows the nodes, and without a controller after a while."""

import ssl
import sys
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from testbed import plain_http
from testbed.certificate_files import mount_like_kubelet
from tests.webhook.running import MAX_SECONDS, Running, ending_well, until
from webhook.placing.controller_wait import ControllerWait

pytestmark = pytest.mark.slow

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


def asking(folder, wait):
    """A webhook process whose controller is nowhere."""
    authority = make_authority(datetime.now(UTC))
    leaf = make_leaf(authority, LOCAL_NAMES, datetime.now(UTC))
    files = {"ca.crt": authority.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
    mount_like_kubelet(folder / "tls", "1", files)
    running = Running(
        [
            sys.executable,
            "-m",
            "cli.main",
            "webhook",
            "--port=0",
            "--health-port=0",
            f"--tls-dir={folder / 'tls'}",
            "--controller=https://127.0.0.1:9",
            f"--controller-wait={wait}",
            "--stop-delay=0",
        ]
    )
    running.trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    return running


def test_a_process_is_not_ready_before_its_controller_answers(tmp_path):
    with ending_well(asking(tmp_path, MAX_SECONDS)) as running:
        url = f"http://127.0.0.1:{running.health_port}"
        answer = plain_http.get(f"{url}/readyz")
        assert answer.status_code == 503
        assert f"[-] controller: {WAITING.replace('20', str(MAX_SECONDS))}" in answer.text
        assert plain_http.get(f"{url}/livez").status_code == 200


def test_a_process_gets_ready_without_a_controller(tmp_path):
    with ending_well(asking(tmp_path, 0.1)) as running:
        url = f"http://127.0.0.1:{running.health_port}/readyz"
        until(lambda: plain_http.get(url).status_code == 200)
        said = running.wait_for(lambda found: found["event"].startswith("serving before"))
        assert said["waited_seconds"] == 0.1
        # Whoever looks sees by what the webhook would place.
        assert "; the controller has not sent its nodes yet\n" in plain_http.get(url).text
