"""A running webhook's life: start, drain, changing policies, changing certificates."""

import itertools
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from testbed.certificate_files import der_of, mount_like_kubelet
from testbed.controller_process import write_tls
from tests.webhook.running import (
    CHECKOUT,
    MAX_SECONDS,
    Running,
    client,
    command,
    connect,
    ending_well,
    head,
    read_all,
    secret,
    until,
    webhook,
)
from tests.webhook.support import FIXTURES, POLICIES, pod, review_of

pytestmark = pytest.mark.slow

BODY = json.dumps(review_of(pod(fraction=None))).encode()


def event(name):
    return lambda found: found["event"] == name


def is_refused(running):
    try:
        with socket.create_connection(("127.0.0.1", running.port), MAX_SECONDS):
            return False
    except ConnectionRefusedError:
        return True


def test_sigterm_drains_unready_first_and_no_request_is_lost(tmp_path):
    with webhook(tmp_path, stop_delay=60) as running, connect(running) as slow:
        with client(running) as http:
            assert http.get("/readyz").status_code == 200
            slow.sendall(head(len(BODY)) + BODY[:10])
            running.process.send_signal(signal.SIGTERM)
            running.wait_for(event("stopping"))
            response = http.get("/readyz")
            assert response.status_code == 503
            assert "[-] serving: the process is stopping" in response.text
            assert http.get(f"http://127.0.0.1:{running.health_port}/readyz").status_code == 503
            assert http.get("/livez").status_code == 200
            assert http.post("/mutate", json=review_of(pod())).json()["response"]["allowed"]
        running.process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(running))
        slow.sendall(BODY[10:])
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in answer.lower()
        slow.close()
        assert running.process.wait(MAX_SECONDS) == 0
    assert [found["event"] for found in running.events()][-1] == "stopped"


def test_ctrl_c_ends_it_like_sigterm(tmp_path):
    with webhook(tmp_path) as running:
        assert running.stop(signal.SIGINT) == 0
    assert [found["event"] for found in running.events()] == ["serving", "stopping", "stopped"]


def metric(http, name):
    (line,) = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_policies_change_while_it_runs_and_a_broken_set_keeps_the_last_good_one(tmp_path):
    directory = tmp_path / "policies"
    directory.mkdir()
    shutil.copy(POLICIES / "default.yaml", directory)
    good = (directory / "default.yaml").read_text()
    half, whole = review_of(pod(), dryRun=True), review_of(pod(fraction="1.000"), dryRun=True)
    success = "fraction_injector_policy_last_reload_successful"
    with webhook(tmp_path, "--policies", directory) as running, client(running) as http:

        def is_allowed(review):
            return http.post("/mutate", json=review).json()["response"]["allowed"]

        assert (is_allowed(half), is_allowed(whole), metric(http, success)) == (True, False, 1.0)
        replace(directory / "default.yaml", good.replace('"0.125": 1', '"0.125": 1\n  "1.000": 8'))
        running.wait_for(event("policies are in force"))
        assert (is_allowed(half), is_allowed(whole), metric(http, success)) == (True, True, 1.0)

        replace(directory / "default.yaml", good.replace("limiter:", "limitr:"))
        broken = running.wait_for(event("policies are broken"))
        assert "limitr" in broken["error"]
        assert (is_allowed(half), is_allowed(whole), metric(http, success)) == (True, True, 0.0)
        readiness = http.get("/readyz")
        assert readiness.status_code == 200
        assert f"policies {broken['kept']}: the last good set; the directory holds: " in readiness.text
        assert "limitr" in readiness.text

        replace(directory / "default.yaml", good)
        running.wait_for(event("policies are in force"), number=2)
        assert (is_allowed(half), is_allowed(whole), metric(http, success)) == (True, False, 1.0)
        assert http.get("/readyz").text.endswith(": in force\n")


def test_a_webhook_with_a_controller_starts_unready_on_broken_policies_and_takes_the_first_good_ones(
    tmp_path,
):
    directory = tmp_path / "policies"
    directory.mkdir()
    good = (POLICIES / "default.yaml").read_text()
    replace(directory / "default.yaml", good.replace("limiter:", "limitr:"))
    tls = write_tls(tmp_path / "tls")
    start = [sys.executable, "-m", "cli.main", "webhook", "--port", "0", "--stop-delay", "0"]
    start += ["--tls-dir", str(tls), "--policies", str(directory), "--controller", "https://localhost:1"]
    with ending_well(Running(start)) as running:
        running.trust = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        with client(running) as http:
            ready = http.get("/readyz")
            assert ready.status_code == 503
            assert "[-] policies: default.yaml:" in ready.text
            assert "limitr" in ready.text
            answer = http.post("/mutate", json=review_of(pod())).json()["response"]
            assert (answer["allowed"], answer["auditAnnotations"]["reason"]) == (False, "policies-broken")
            assert http.post("/mutate", json=review_of(pod(fraction=None))).json()["response"]["allowed"]

            replace(directory / "default.yaml", good)
            running.wait_for(event("policies are in force"))
            assert "[+] policies: ok" in http.get("/readyz").text


def replace(file, text):
    """Write as an editor does: never half a file."""
    coming = file.with_suffix(".coming")
    coming.write_text(text)
    coming.replace(file)


def served(running):
    with connect(running) as connection:
        return connection.getpeercert(binary_form=True)


def test_a_mounted_certificate_is_swapped_and_a_bad_one_is_not_served(tmp_path):
    now = datetime.now(UTC)
    authority = make_authority(now)
    first, second = (make_leaf(authority, LOCAL_NAMES, now) for _ in range(2))
    expired = make_leaf(authority, LOCAL_NAMES, now)
    directory = tmp_path / "tls"
    mount_like_kubelet(directory, "1", secret(authority, first))
    start = command("--tls-dir", directory, "--tls-name", "localhost", "--stop-delay", "0")
    with ending_well(Running(start)) as running:
        running.trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        with client(running) as kept:
            assert kept.get("/readyz").status_code == 200
            assert served(running) == der_of(first)
            ends = metric(kept, "fraction_injector_certificate_expiry_timestamp_seconds")
            assert abs(ends - (now + timedelta(days=30)).timestamp()) < 10

            mount_like_kubelet(directory, "2", secret(authority, second))
            running.wait_for(event("certificate is served"), number=2)
            assert served(running) == der_of(second)

            mount_like_kubelet(directory, "3", {**secret(authority, expired), "tls.key": first.key_pem})
            refused = running.wait_for(event("certificate is not served"))
            assert "tls.key" in refused["error"]
            assert served(running) == der_of(second)
            assert metric(kept, "fraction_injector_certificate_swap_errors_total") == 1.0
            assert kept.get("/readyz").status_code == 200


def test_without_a_certificate_it_is_alive_and_not_ready(tmp_path):
    directory = tmp_path / "tls"
    directory.mkdir()
    start = command("--tls-dir", directory, "--health-port", "0", "--stop-delay", "0")
    with ending_well(Running(start)) as running:
        running.trust = ssl.create_default_context()
        with client(running) as http:
            plain = f"http://127.0.0.1:{running.health_port}"
            assert http.get(f"{plain}/livez").status_code == 200
            response = http.get(f"{plain}/readyz")
            assert response.status_code == 503
            assert f"[-] certificate: {directory}/" in response.text
            authority = make_authority(datetime.now(UTC))
            leaf = make_leaf(authority, LOCAL_NAMES, datetime.now(UTC))
            mount_like_kubelet(directory, "1", secret(authority, leaf))
            running.wait_for(event("certificate is served"))
            assert http.get(f"{plain}/readyz").status_code == 200


STANDALONE = ("--inventory", FIXTURES / "inventory.json")


@pytest.mark.parametrize("option", ["--port", "--health-port"])
def test_a_port_in_use_is_said_and_ends_the_command(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            command("--self-signed", "--ca-file", tmp_path / "ca.pem", option, port),
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    assert ended.returncode == 2
    said = ended.stderr.splitlines()[-1]
    assert said == (
        f"fraction-injector: cannot listen on 127.0.0.1:{port}: Address already in use:"
        " stop what listens there, or choose another address or port"
    )


def test_a_ca_file_that_cannot_be_written_is_named(failing, tmp_path):
    status, said = failing("--self-signed", *STANDALONE, "--ca-file", tmp_path / "missing" / "ca.pem")
    assert status == 2
    assert str(tmp_path / "missing") in said


def test_exactly_one_certificate_is_asked_for(failing, tmp_path):
    message = (
        "fraction-injector: the webhook needs one certificate: pass either --self-signed or --tls-dir DIR"
    )
    assert failing() == (2, message)
    assert failing("--self-signed", "--tls-dir", tmp_path) == (2, message)


def test_exactly_one_ledger_is_asked_for(failing):
    message = (
        "fraction-injector: the webhook needs one ledger: pass either --inventory FILE or --controller URL"
    )
    assert failing("--self-signed") == (2, message)
    assert failing("--self-signed", *STANDALONE, "--controller", "https://localhost:1") == (2, message)


def test_a_controller_asks_for_a_certificate_of_its_ca(failing):
    status, said = failing("--self-signed", "--controller", "https://localhost:1")
    assert status == 2
    assert said == (
        "fraction-injector: --controller needs --tls-dir DIR:"
        " webhook and controller show certificates of one CA"
    )


BOMB = "kind: Policy\nname: default\na: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}, *{before}]\n"
    for before, name in itertools.pairwise("abcdefghijklmnop")
)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("kind: Policy\nname: default\nlimiter: hami-cor\n", "default.yaml:3: limiter: "),
        ("kind: Policy\nname: default\nlimitr: none\n", "default.yaml:3: limitr: "),
        ("kind: Polcy\nname: default\n", "default.yaml:1: kind: "),
        ("kind: Policy\nname: default\nslicesPerGpu: 8\nslicesPerGpu: 4\n", "default.yaml:4"),
        (BOMB, "default.yaml:3"),
    ],
)
def test_policies_that_are_wrong_end_the_command_with_file_line_and_key(failing, tmp_path, text, wrong):
    (tmp_path / "default.yaml").write_text(text)
    ca_file = tmp_path / "ca.pem"
    status, said = failing("--self-signed", *STANDALONE, "--ca-file", ca_file, "--policies", tmp_path)
    assert status == 2
    assert wrong in said


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (None, "No such file or directory: name a file that can be read"),
        ("kind: Service", "kind Service is not a Node: an inventory is `kubectl get nodes -o yaml`"),
        ("hello", "a document is not a Kubernetes object: it needs apiVersion and kind"),
    ],
)
def test_an_inventory_that_is_wrong_ends_the_command_with_file_and_rule(failing, tmp_path, text, wrong):
    inventory = tmp_path / "nodes.yaml"
    if text is not None:
        inventory.write_text(text)
    status, said = failing("--self-signed", "--inventory", inventory)
    assert (status, said) == (2, f"fraction-injector: {inventory}: {wrong}")


IMPATIENT = """
import sys
from ledger.ledger import Ledger
from policies.loading.loader import load_policies
from pathlib import Path
from service.http.limits import Limits
from service.log import configure_logging
from service.metrics import new_registry
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from webhook.app import WebhookApp
from webhook.metrics import WebhookMetrics
from webhook.placing.placer import LedgerPlacer
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

configure_logging()
policies = load_policies(Path(sys.argv[1]))
reviewer = Reviewer(lambda: policies, PatchCache(Rules()), LedgerPlacer(Ledger()), lambda *_: None)
app = WebhookApp(reviewer, WebhookMetrics(new_registry()))
listener = Listener(app, bind("127.0.0.1", 0), limits=Limits(head_seconds=0.1, body_seconds=0.1))
print(listener.socket.getsockname()[1], flush=True)
run(serve([listener], on_started=lambda: print("on", flush=True), on_stopping=print, stop_delay_seconds=0))
"""


def test_a_body_that_comes_too_slowly_gets_a_408_and_its_connection_is_closed():
    start = [sys.executable, "-c", IMPATIENT, str(POLICIES)]
    with subprocess.Popen(
        start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT
    ) as process:
        port = int(process.stdout.readline())
        assert process.stdout.readline() == "on\n"
        with socket.create_connection(("127.0.0.1", port), MAX_SECONDS) as connection:
            connection.sendall(head(len(BODY)) + BODY[:10])
            answer = read_all(connection)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=MAX_SECONDS)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert (process.returncode, errors) == (0, "")
