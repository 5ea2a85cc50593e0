"""A webhook process on a mounted certificate: changing certificates and policies; and what ends its start."""

import shutil
import socket
import ssl
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from typer.testing import CliRunner

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from cli.app import app
from testbed import plain_http
from testbed.certificate_files import der_of, mount_like_kubelet, write_pair
from tests.webhook.running import (
    Running,
    client,
    command,
    connect,
    ending_well,
    event,
    replace,
    secret,
)
from tests.webhook.support import FIXTURES, POLICIES, pod, review_of

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)


def new_leaf():
    return make_leaf(AUTHORITY, LOCAL_NAMES, NOW)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One process for all; its certificate comes after its start."""
    folder = tmp_path_factory.mktemp("webhook")
    ca_file, tls, policies = folder / "ca.pem", folder / "tls", folder / "policies"
    for directory in (tls, policies):
        directory.mkdir()
    ca_file.write_bytes(AUTHORITY.certificate_pem)
    shutil.copy(POLICIES / "default.yaml", policies)
    api_servers, others = make_authority(NOW), make_authority(NOW)
    client_ca, first = folder / "client-ca.pem", new_leaf()
    client_ca.write_bytes(api_servers.certificate_pem)

    def showing(pair):
        trust = ssl.create_default_context(cafile=str(ca_file))
        trust.load_cert_chain(*write_pair(folder / "shown", pair))
        return trust

    options = ("--tls-dir", tls, "--policies", policies, "--client-ca-file", client_ca)
    with ending_well(Running(command(*options, "--health-port", "0", "--stop-delay", "0"))) as process:
        process.tls, process.policies, process.first = tls, policies, first
        process.without_certificate = [ask(process, path) for path in ("/livez", "/readyz")]
        mount_like_kubelet(tls, "1", secret(AUTHORITY, first))
        process.wait_for(event("certificate is served"))
        # Who shows no certificate, one of the same name of another CA, or the webhook's own.
        namesake = make_leaf(others, ["api-server"], NOW)
        process.strangers = [
            ssl.create_default_context(cafile=str(ca_file)),
            *map(showing, (namesake, first)),
        ]
        process.trust = showing(make_leaf(api_servers, ["api-server"], NOW))
        yield process


def ask(running, path):
    return plain_http.get(f"http://127.0.0.1:{running.health_port}{path}")


def test_without_a_certificate_it_is_alive_and_not_ready(running):
    alive, ready = running.without_certificate
    assert (alive.status_code, ready.status_code) == (200, 503)
    assert f"[-] certificate: {running.tls}/" in ready.text
    assert ask(running, "/readyz").status_code == 200


def test_with_a_client_ca_the_api_server_gets_in_and_nobody_else(running):
    for trust in running.strangers:
        with client(running, trust) as stranger, pytest.raises(httpx.TransportError):
            stranger.get("/livez")
    with client(running) as http:
        answer = http.post("/mutate?timeout=5s", json=review_of(pod(), dryRun=True))
        assert answer.json()["response"]["allowed"]


def test_no_port_describes_itself(running):
    with client(running) as http:
        for path in ("/openapi.json", "/docs", "/redoc", "/nothing"):
            assert (http.get(path).status_code, ask(running, path).status_code) == (404, 404)


def metric(http, name):
    (line,) = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_policies_change_while_it_runs_and_a_broken_set_keeps_the_last_good_one(running):
    file = running.policies / "default.yaml"
    good = file.read_text()
    with client(running) as http:

        def check(whole_is_allowed, success):
            for fraction, is_allowed in (("0.500", True), ("1.000", whole_is_allowed)):
                answer = http.post("/mutate", json=review_of(pod(fraction=fraction), dryRun=True)).json()
                assert answer["response"]["allowed"] is is_allowed
            assert metric(http, "fraction_injector_policy_last_reload_successful") == success
            return http.get("/readyz")

        check(whole_is_allowed=False, success=1.0)
        replace(file, good.replace('"0.125": 1', '"0.125": 1\n  "1.000": 8'))
        running.wait_for(event("policies are in force"))
        check(whole_is_allowed=True, success=1.0)

        replace(file, good.replace("limiter:", "limitr:"))
        broken = running.wait_for(event("policies are broken"))
        readiness = check(whole_is_allowed=True, success=0.0)
        assert readiness.status_code == 200
        assert f"policies {broken['kept']}: the last good set; the directory holds: " in readiness.text
        assert "limitr" in readiness.text
        assert "limitr" in broken["error"]

        replace(file, good)
        running.wait_for(event("policies are in force"), number=2)
        assert check(whole_is_allowed=False, success=1.0).text.endswith(": in force\n")


def served(running):
    with connect(running) as connection:
        return connection.getpeercert(binary_form=True)


def test_a_mounted_certificate_is_swapped_and_a_bad_one_is_not_served(running):
    second = new_leaf()
    with client(running) as kept:
        assert served(running) == der_of(running.first)
        ends = metric(kept, "fraction_injector_certificate_expiry_timestamp_seconds")
        assert abs(ends - (NOW + timedelta(days=30)).timestamp()) < 10

        mount_like_kubelet(running.tls, "2", secret(AUTHORITY, second))
        running.wait_for(event("certificate is served"), number=2)
        assert served(running) == der_of(second)

        mount_like_kubelet(running.tls, "3", {**secret(AUTHORITY, new_leaf()), "tls.key": second.key_pem})
        refused = running.wait_for(event("certificate is not served"), number=2)
        assert "tls.key" in refused["error"]
        assert served(running) == der_of(second)
        assert metric(kept, "fraction_injector_certificate_swap_errors_total") == 2.0
        assert kept.get("/readyz").status_code == 200


@pytest.fixture
def failing(tmp_path):
    """Exit status and last line of a command that ends before it serves; in this process, for speed."""

    def ask(*options):
        own = ("--self-signed", "--inventory", FIXTURES / "inventory.json", "--ca-file", tmp_path / "ca.pem")
        result = CliRunner().invoke(app, ["webhook", "--port", "0", *map(str, (*own, *options))])
        assert isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stderr.splitlines()[-1]

    return ask


@pytest.mark.parametrize("option", ["--port", "--health-port"])
def test_a_port_in_use_is_said_and_ends_the_command(failing, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = failing(option, port)
    assert status == 2
    assert said == (
        f"fraction-injector: cannot listen on 127.0.0.1:{port}: Address already in use:"
        " stop what listens there, or choose another address or port"
    )


def test_a_client_ca_that_cannot_be_read_is_named(failing, tmp_path):
    file = tmp_path / "missing.pem"
    status, said = failing("--client-ca-file", file)
    assert status == 2
    assert said.startswith(f"fraction-injector: --client-ca-file {file}: No such file or directory: ")
    file.write_text("no PEM")
    status, said = failing("--client-ca-file", file)
    assert (status, "client CA: holds no certificate" in said) == (2, True)
