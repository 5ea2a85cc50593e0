"""A webhook gets ready when it knows the nodes, and without a controller after a while."""

import ssl
import sys

import pytest

from testbed import plain_http
from testbed.certificate_files import write_tls
from testbed.process import eventually
from tests.webhook.running import Running, client, ending_well, event, replace
from tests.webhook.support import POLICIES, pod, review_of
from webhook.placing.controller_wait import ControllerWait

WAITING = "the controller has not sent its nodes yet: serving without it after 20 s"


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ([(0, False), (19.9, False)], WAITING),
        ([(0, False), (20, False)], None),
        ([(0, False), (1, True)], None),
        ([(3600, False)], WAITING),
        ([(0, True), (1, False)], None),
    ],
    ids=["waits", "a while", "known nodes", "begins when it is first asked", "never begins again"],
)
def test_it_is_over_when_the_nodes_are_known_or_after_a_while(steps, missing):
    now, known = [0.0], [False]
    wait = ControllerWait(lambda: known[0], 20.0, lambda: now[0])
    for now[0], known[0] in steps:
        last = wait.missing()
    assert last == missing


def test_a_process_gets_ready_without_a_controller_and_with_the_first_good_policies(tmp_path):
    mounted, directory = write_tls(tmp_path / "tls"), tmp_path / "policies"
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

        eventually(lambda: "[+] controller: ok" in ready().text, "it waits no longer")
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
        eventually(lambda: ready().status_code == 200, "it is ready")
        # Whoever looks sees by what the webhook would place.
        assert "; the controller has not sent its nodes yet\n" in ready().text
