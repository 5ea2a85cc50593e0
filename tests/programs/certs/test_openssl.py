"""What openssl says of our certificates and handshakes."""

import asyncio
import subprocess
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf, service_names
from tests.certs.handshakes import listening
from tests.certs.test_live_context import CA, live_with, new_leaf

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "check",
    [
        ["-purpose", "sslserver", "-verify_hostname", "injector.gpu.svc"],
        ["-purpose", "sslserver", "-verify_hostname", "injector.gpu.svc.cluster.local"],
        ["-purpose", "sslserver", "-verify_hostname", "localhost"],
        ["-purpose", "sslserver", "-verify_ip", "127.0.0.1"],
        ["-purpose", "sslserver", "-verify_ip", "::1"],
        ["-purpose", "sslclient"],
    ],
    ids=" ".join,
)
def test_openssl_accepts_chain_and_names_by_the_strict_rules(tmp_path, check):
    authority = make_authority(NOW)
    leaf = make_leaf(authority, (*service_names("injector", "gpu"), *LOCAL_NAMES), NOW)
    (tmp_path / "other.pem").write_bytes(make_authority(NOW).certificate_pem)
    (tmp_path / "ca.pem").write_bytes((tmp_path / "other.pem").read_bytes() + authority.certificate_pem)
    (tmp_path / "leaf.pem").write_bytes(leaf.certificate_pem)
    verify = ["openssl", "verify", "-x509_strict", "-attime", str(int(NOW.timestamp())), *check]
    accepted = _run([*verify, "-CAfile", "ca.pem", "leaf.pem"], tmp_path)
    assert (accepted.returncode, accepted.stdout) == (0, "leaf.pem: OK\n")
    assert _run([*verify, "-CAfile", "other.pem", "leaf.pem"], tmp_path).returncode != 0


def _run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_openssl_s_client_without_a_server_name_accepts_the_pair(tmp_path):
    async def scenario():
        (tmp_path / "ca.pem").write_bytes(CA)
        async with listening(live_with(new_leaf()).listener) as port:
            client = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-noservername", "-brief"),
                *("-CAfile", tmp_path / "ca.pem", "-x509_strict", "-verify_ip", "127.0.0.1"),
                "-verify_return_error",
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            _, said = await client.communicate()
        assert client.returncode == 0
        assert b"Verification: OK" in said

    asyncio.run(scenario())
