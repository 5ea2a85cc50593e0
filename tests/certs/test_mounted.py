"""A mounted TLS Secret: what is served when the kubelet, or a hand, changes it."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property

import pytest
import trustme

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.mounted import MountedCertificate, MountRules, read_tls_files
from certs.pem import fingerprint
from certs.validation import validate_files
from certs.values import CertificateError, KeyPair
from testbed.certificate_files import certificate_of, mount_like_kubelet, write_pair
from testbed.process import WAIT_S
from tests.certs.handshakes import listening, shake_hands

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
NAMES = ("localhost",)


def leaf(when: datetime = NOW) -> KeyPair:
    return make_leaf(AUTHORITY, NAMES, when)


def secret(pair: KeyPair, injected: str | None = None) -> dict[str, bytes]:
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": AUTHORITY.certificate_pem}
    return content if injected is None else {**content, "injected-ca": injected.encode()}


class Mount:
    """A mounted pair whose owner records what is reported."""

    def __init__(self, directory, *, require_injected=False):
        self.accepted, self.rejected = asyncio.Queue(), []
        self._directory, self._rules = directory, MountRules(NAMES, require_injected=require_injected)

    @cached_property
    def certificate(self):
        return MountedCertificate(
            self._directory,
            self._rules,
            self.accepted.put_nowait,
            lambda error: self.rejected.append(str(error)),
        )

    def refresh(self) -> list[str]:
        """Read once; the digests of the leaves that were accepted."""
        if "certificate" in self.__dict__:
            self.certificate.refresh()
        assert self.certificate
        return [self.accepted.get_nowait().sha256 for _ in range(self.accepted.qsize())]


def sha256(pair: KeyPair) -> str:
    return fingerprint(certificate_of(pair))


@asynccontextmanager
async def running(certificate: MountedCertificate):
    task = asyncio.create_task(certificate.follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_the_content_decides_not_the_event(tmp_path):
    mount, first = Mount(tmp_path / "tls"), leaf()
    mount_like_kubelet(tmp_path / "tls", "1", secret(first))
    assert mount.refresh() == [sha256(first)]
    assert mount.refresh() == []
    mount_like_kubelet(tmp_path / "tls", "2", secret(first))
    assert mount.refresh() == []


def test_a_torn_write_keeps_the_old_pair_until_the_rest_arrives(tmp_path):
    mount, first, second = Mount(tmp_path), leaf(), leaf()
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate_pem)
    write_pair(tmp_path, first)
    assert mount.refresh() == [sha256(first)]
    (tmp_path / "tls.crt").write_bytes(second.certificate_pem)
    assert mount.refresh() == mount.refresh() == []
    (tmp_path / "tls.key").write_bytes(second.key_pem)
    assert mount.refresh() == [sha256(second)]
    assert len(mount.rejected) == 1
    assert mount.rejected[0].startswith(f"{tmp_path}/tls.key: is not the key of {tmp_path}/tls.crt;")


def test_an_empty_mount_is_reported_and_waited_for(tmp_path):
    mount = Mount(tmp_path)
    assert mount.refresh() == []
    assert mount.certificate.missing == mount.rejected[0]
    assert mount.rejected == [f"{tmp_path}/tls.crt: No such file or directory; mount a Secret that holds it"]


def test_a_directory_that_cannot_be_followed_is_reported_and_waited_for(tmp_path):
    (tmp_path / "..data").symlink_to("..data")
    mount = Mount(tmp_path)
    assert mount.refresh() == []
    assert mount.rejected[0].startswith(f"{tmp_path}: ")
    assert mount.rejected[0].endswith("; mount a Secret that this user may read")


@pytest.mark.parametrize("verify_clients", [False, True])
@pytest.mark.parametrize("trusted", ["intermediate", "leaf"])
async def test_what_is_trusted_need_be_no_root_for_those_that_dial_and_are_dialled(
    tmp_path, trusted, verify_clients
):
    """As with an issuer of cert-manager that knows its own certificate and not its root's."""
    middle = trustme.CA(key_type=trustme.KeyType.ECDSA).create_child_ca(key_type=trustme.KeyType.ECDSA)
    made = middle.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
    first = made.cert_chain_pems[0].bytes()
    write_pair(tmp_path, KeyPair(first, made.private_key_pem.bytes()))
    (tmp_path / "ca.crt").write_bytes(middle.cert_pem.bytes() if trusted == "intermediate" else first)
    mounted = MountedCertificate(
        tmp_path, MountRules(NAMES), lambda _: None, lambda _: None, verify_clients=verify_clients
    )
    assert mounted.missing is None
    async with listening(mounted.context.listener) as port:
        seen = await shake_hands(port, mounted.client)
    assert ssl.DER_cert_to_PEM_cert(seen.leaf_der) == first.decode().replace("\r", "")


@pytest.mark.parametrize("injected", [None, "", "0" * 64])
def test_self_managed_a_leaf_waits_until_its_ca_is_in_the_ca_bundle(tmp_path, injected):
    mount, pair = Mount(tmp_path / "tls", require_injected=True), leaf()
    mount_like_kubelet(tmp_path / "tls", "1", secret(pair, injected))
    assert mount.refresh() == []
    issuer = fingerprint(certificate_of(AUTHORITY))
    assert mount.rejected[0].startswith(f"{tmp_path}/tls/injected-ca: does not list {issuer}, the issuer of")
    mount_like_kubelet(tmp_path / "tls", "2", secret(pair, f"{'0' * 64}\n{issuer}\n"))
    assert mount.refresh() == [sha256(pair)]


def test_what_was_refused_is_tried_again_and_served_when_it_may_be(tmp_path, monkeypatch):
    """As a pair is whose notBefore was still to come."""
    pair, answers = leaf(), [CertificateError("not yet")] * 2

    def validate(files, names):
        if answers:
            raise answers.pop()
        return validate_files(files, names)

    monkeypatch.setattr("certs.mounted.validate_files", validate)
    mount_like_kubelet(tmp_path / "tls", "1", secret(pair))
    mount = Mount(tmp_path / "tls")
    assert [mount.refresh() for _ in range(4)] == [[], [], [sha256(pair)], []]
    assert mount.rejected == ["not yet"]


def test_all_files_are_read_from_one_generation(tmp_path):
    """`tls.key` next to `..data` is stale: a reader of the outer names would get a mixed pair."""
    old, new = leaf(), leaf()
    mount_like_kubelet(tmp_path / "tls", "1", secret(old))
    mount_like_kubelet(tmp_path / "tls", "2", secret(new, "a b"))
    (tmp_path / "tls" / "tls.key").unlink()
    (tmp_path / "tls" / "tls.key").write_bytes(old.key_pem)
    files = read_tls_files(tmp_path / "tls")
    assert files.pair == new
    assert files.injected_ca == {"a", "b"}
    assert files.source == str(tmp_path / "tls")


async def test_a_running_watch_survives_a_directory_that_comes_late_or_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("certs.mounted.POLL_SECONDS", 0.05)
    mount, directory = Mount(tmp_path / "tls"), tmp_path / "tls"
    async with asyncio.timeout(WAIT_S), running(mount.certificate):
        first, second = leaf(), leaf()
        mount_like_kubelet(directory, "1", secret(first))
        assert (await mount.accepted.get()).sha256 == sha256(first)
        directory.rename(tmp_path / "gone")
        mount_like_kubelet(directory, "1", secret(second))
        assert (await mount.accepted.get()).sha256 == sha256(second)
