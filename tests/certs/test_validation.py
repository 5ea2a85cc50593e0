"""Which pairs are served, and what an admin reads about the others."""

from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from certs.authority import make_authority
from certs.leaf import make_leaf, service_names
from certs.pair import CertificateError, KeyPair, TlsFiles
from certs.pem import fingerprint
from certs.validation import validate_files
from testbed.certificate_files import certificate_of

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
NAMES = service_names("injector", "gpu")
AUTHORITY = make_authority(NOW)
LEAF = make_leaf(AUTHORITY, NAMES, NOW)
OTHER = make_authority(NOW)


def files(certificate=LEAF.certificate_pem, key=LEAF.key_pem, ca=AUTHORITY.certificate_pem):
    return TlsFiles(KeyPair(certificate, key), ca, source="/tls")


def encrypted(pem: bytes) -> bytes:
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def test_a_good_pair_tells_its_leaf_its_issuer_and_its_dates():
    both = OTHER.certificate_pem + AUTHORITY.certificate_pem
    facts = validate_files(files(ca=both), NAMES, NOW)
    assert facts.sha256 == fingerprint(certificate_of(LEAF))
    assert facts.issuer_sha256 == fingerprint(certificate_of(AUTHORITY))
    assert facts.not_before == NOW - timedelta(hours=1)
    assert facts.not_after == NOW + timedelta(days=30)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (files(certificate=b""), "/tls/tls.crt: holds no certificate (0 bytes); expected PEM"),
        (files(certificate=LEAF.certificate_pem[:300]), "/tls/tls.crt: a certificate in it cannot be read ("),
        (
            files(key=LEAF.key_pem[:60]),
            "/tls/tls.key: holds no readable private key (60 bytes); expected PEM",
        ),
        (files(key=encrypted(LEAF.key_pem)), "/tls/tls.key: the private key is encrypted; store it without"),
        (files(key=OTHER.key_pem), "/tls/tls.key: is not the key of /tls/tls.crt (serial "),
        (files(ca=b"\n"), "/tls/ca.crt: holds no certificate (1 bytes); expected PEM"),
        (files(ca=OTHER.certificate_pem), "/tls/tls.crt: issued by 'CN=fraction-injector CA "),
        (files(ca=LEAF.certificate_pem[:-40]), "/tls/ca.crt: a certificate in it cannot be read ("),
    ],
    ids=["empty", "torn certificate", "torn key", "encrypted", "wrong key", "no CA", "wrong CA", "torn CA"],
)
def test_a_bad_pair_is_refused_by_file_value_and_rule(bad, message):
    with pytest.raises(CertificateError) as refused:
        validate_files(bad, NAMES, NOW)
    assert str(refused.value).startswith(message)
    assert "PRIVATE KEY" not in str(refused.value).replace("-----BEGIN PRIVATE KEY-----", "")


def test_every_missing_name_is_listed_beside_the_names_held():
    with pytest.raises(CertificateError) as refused:
        validate_files(files(), [*NAMES, "localhost", "127.0.0.1"], NOW)
    assert str(refused.value) == (
        "/tls/tls.crt: subjectAltName ['injector', 'injector.gpu', 'injector.gpu.svc', "
        "'injector.gpu.svc.cluster.local'] lacks localhost, 127.0.0.1; "
        "issue it for every name it is dialled by"
    )


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (NOW - timedelta(hours=2), "notBefore 2026-11-20T11:00:00Z is still to come at 2026-11-20T10:00:00Z"),
        (NOW + timedelta(days=31), "notAfter 2026-12-20T12:00:00Z is over at 2026-12-21T12:00:00Z"),
    ],
)
def test_a_pair_outside_its_dates_is_refused(when, message):
    with pytest.raises(CertificateError, match=message):
        validate_files(files(), NAMES, when)


def test_an_expired_ca_anchors_nothing_but_a_leaf_listed_itself_needs_none():
    leaf_as_ca = files(ca=LEAF.certificate_pem)
    assert validate_files(leaf_as_ca, NAMES, NOW).issuer_sha256 == fingerprint(certificate_of(LEAF))
    old = make_authority(NOW - timedelta(days=364))
    late = make_leaf(old, NAMES, NOW)
    with pytest.raises(CertificateError, match="notAfter"):
        validate_files(TlsFiles(late, old.certificate_pem), NAMES, NOW + timedelta(days=2))


def test_wildcards_cover_one_label_and_case_does_not_matter():
    leaf = make_leaf(AUTHORITY, ["*.gpu.svc"], NOW)
    wild = files(leaf.certificate_pem, leaf.key_pem)
    assert validate_files(wild, ["Injector.GPU.svc"], NOW).sha256 == fingerprint(certificate_of(leaf))
    for uncovered in ("gpu.svc", "a.b.gpu.svc", "*"):
        with pytest.raises(CertificateError, match="lacks"):
            validate_files(wild, [uncovered], NOW)


def test_intermediates_of_another_maker_lead_to_their_root():
    root = trustme.CA()
    middle = root.create_child_ca()
    issued = middle.issue_cert("injector.gpu.svc")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    pair = KeyPair(chain, issued.private_key_pem.bytes())
    found = validate_files(TlsFiles(pair, root.cert_pem.bytes()), ["injector.gpu.svc"], datetime.now(UTC))
    assert found.issuer_sha256 == fingerprint(certificate_of(KeyPair(root.cert_pem.bytes(), b"")))
    alone = KeyPair(issued.cert_chain_pems[0].bytes(), pair.key_pem)
    with pytest.raises(CertificateError, match="leads to no valid CA"):
        validate_files(TlsFiles(alone, root.cert_pem.bytes()), ["injector.gpu.svc"], datetime.now(UTC))
