"""Who gets in where `--client-ca-file` says whose certificates are asked for."""

import ssl
from datetime import UTC, datetime

import httpx
import pytest

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from testbed import plain_http
from testbed.certificate_files import mount_like_kubelet, write_pair
from tests.webhook.running import Running, client, command, ending_well, secret
from tests.webhook.support import FIXTURES, pod, review_of

pytestmark = pytest.mark.slow

STANDALONE = ("--inventory", FIXTURES / "inventory.json")


@pytest.fixture
def api_servers_ca(tmp_path):
    """The CA of an API server's client certificate, its file, and that certificate."""
    authority = make_authority(datetime.now(UTC))
    file = tmp_path / "client-ca.pem"
    file.write_bytes(authority.certificate_pem)
    return file, make_leaf(authority, ["api-server"], datetime.now(UTC))


@pytest.mark.parametrize("mounted", [False, True])
def test_with_a_client_ca_the_api_server_gets_in_and_nobody_else(tmp_path, api_servers_ca, mounted):
    file, shown = api_servers_ca
    authority = make_authority(datetime.now(UTC))
    leaf = make_leaf(authority, LOCAL_NAMES, datetime.now(UTC))
    options = ["--self-signed", "--ca-file", tmp_path / "ca.pem"]
    if mounted:
        mount_like_kubelet(tmp_path / "tls", "1", secret(authority, leaf))
        (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
        options = ["--tls-dir", tmp_path / "tls"]
    start = command(*options, "--client-ca-file", file, "--health-port", "0", "--stop-delay", "0")
    with ending_well(Running(start)) as running:
        running.trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        for pair in (None, leaf, make_leaf(authority, ["api-server"], datetime.now(UTC))):
            if pair is not None:
                running.trust.load_cert_chain(*write_pair(tmp_path / "stranger", pair))
            with client(running) as stranger, pytest.raises(httpx.TransportError):
                stranger.get("/livez")
        running.trust.load_cert_chain(*write_pair(tmp_path / "api-server", shown))
        with client(running) as http:
            assert is_allowed_by(http)
        plain = plain_http.get(f"http://127.0.0.1:{running.health_port}/readyz")
        assert plain.status_code == 200


def is_allowed_by(http):
    return http.post("/mutate?timeout=5s", json=review_of(pod(), dryRun=True)).json()["response"]["allowed"]


def test_a_client_ca_that_cannot_be_read_is_named(failing, tmp_path):
    missing = tmp_path / "missing.pem"
    status, said = failing(
        "--self-signed", *STANDALONE, "--ca-file", tmp_path / "ca.pem", "--client-ca-file", missing
    )
    assert status == 2
    assert said.startswith(f"fraction-injector: --client-ca-file {missing}: No such file or directory: ")
    missing.write_text("no PEM")
    status, said = failing(
        "--self-signed", *STANDALONE, "--ca-file", tmp_path / "ca.pem", "--client-ca-file", missing
    )
    assert (status, "client CA: holds no certificate" in said) == (2, True)
