"""Which pairs are served, and what an admin reads about the others."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import common_name, make_authority
from certs.leaf import make_leaf, service_names
from certs.pem import fingerprint, load_key, to_pem
from certs.validation import validate_files
from certs.values import CertificateError, KeyPair, TlsFiles
from testbed.certificate_files import certificate_of

NOW = datetime.now(UTC)
NAMES = service_names("injector", "gpu")
AUTHORITY = make_authority(NOW)
LEAF = make_leaf(AUTHORITY, NAMES, NOW)
OTHER = make_authority(NOW)
OLD = make_authority(NOW - timedelta(days=364))
GONE = make_authority(NOW - timedelta(days=366))
LATER = make_authority(NOW + timedelta(days=1))


def files(pair=LEAF, *, ca=AUTHORITY):
    return TlsFiles(pair, ca.certificate_pem, source="/tls")


def of(certificate=LEAF.certificate_pem, key=LEAF.key_pem, ca=AUTHORITY.certificate_pem):
    return TlsFiles(KeyPair(certificate, key), ca, source="/tls")


def encrypted(pem: bytes) -> bytes:
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def issued(*extensions, key=None, days=(-1, 1), issuer=AUTHORITY) -> KeyPair:
    """A leaf as others may issue it, with just these extensions."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    start, end = (NOW + timedelta(days=each) for each in days)
    builder = x509.CertificateBuilder(
        certificate_of(issuer).subject, common_name(NAMES[0]), key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(start).not_valid_after(end)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(load_key(issuer.key_pem, "CA key"), hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(to_pem([certificate]), pem)


HELD = x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])
CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


def test_a_good_pair_tells_its_leaf_its_issuer_and_its_dates():
    both = OTHER.certificate_pem + AUTHORITY.certificate_pem + OLD.certificate_pem
    facts = validate_files(of(ca=both), NAMES)
    assert facts.sha256 == fingerprint(certificate_of(LEAF))
    assert facts.issuer_sha256 == fingerprint(certificate_of(AUTHORITY))
    assert facts.not_before == NOW.replace(microsecond=0) - timedelta(hours=1)
    assert facts.not_after == NOW.replace(microsecond=0) + timedelta(days=30)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (of(certificate=b""), "/tls/tls.crt: holds no certificate (0 bytes); expected PEM"),
        (of(certificate=LEAF.certificate_pem[:300]), "/tls/tls.crt: a certificate in it cannot be read ("),
        (
            of(certificate=LEAF.certificate_pem.replace(b"MII", b"AAA")),
            "/tls/tls.crt: a certificate in it cannot be read (",
        ),
        (of(key=LEAF.key_pem[:60]), "/tls/tls.key: holds no readable private key (60 bytes); expected PEM"),
        (of(key=LEAF.key_pem[:-9]), "/tls/tls.key: holds no readable private key ("),
        (of(key=b"garbage"), "/tls/tls.key: holds no readable private key (7 bytes); expected PEM"),
        (of(key=encrypted(LEAF.key_pem)), "/tls/tls.key: the private key is encrypted; store it without"),
        (of(key=OTHER.key_pem), "/tls/tls.key: is not the key of /tls/tls.crt; store both of one pair"),
        (
            of(key=trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem.bytes()),
            "/tls/tls.key: is not the key of /tls/tls.crt; store both of one pair",
        ),
        (of(ca=b"\n"), "/tls/ca.crt: holds no certificate (1 bytes); expected PEM"),
        (
            of(ca=b"-----BEGIN CERTIFICATE-----" * 40_000),
            "/tls/ca.crt: a certificate in it cannot be read (of 40000 only 0 have an end)",
        ),
        (of(ca=LEAF.certificate_pem[:-40]), "/tls/ca.crt: a certificate in it cannot be read ("),
        (files(ca=OTHER), "/tls/tls.crt: issued by 'commonName=fraction-injector CA "),
    ],
    ids=[
        "no certificate", "torn certificate", "garbled certificate", "torn key", "key without its last line",
        "garbage", "encrypted", "wrong key", "key of another kind", "no CA", "CAs without an end", "torn CA",
        "wrong CA",
    ],
)  # fmt: skip
def test_a_bad_pair_is_refused_by_file_value_and_rule(bad, message):
    with pytest.raises(CertificateError) as refused:
        validate_files(bad, NAMES)
    assert str(refused.value).startswith(message)
    assert "PRIVATE KEY" not in str(refused.value).replace("-----BEGIN PRIVATE KEY-----", "")


def test_every_missing_name_is_listed_with_the_names_held():
    with pytest.raises(CertificateError) as refused:
        validate_files(files(), [*NAMES, "localhost", "127.0.0.1"])
    assert str(refused.value) == (
        "/tls/tls.crt: subjectAltName ['injector', 'injector.gpu', 'injector.gpu.svc', "
        "'injector.gpu.svc.cluster.local'] lacks localhost, 127.0.0.1; "
        "issue it for every name it is dialled by"
    )


@pytest.mark.parametrize("name", ["", ".gpu", "a" * 64 + ".gpu", "a..gpu"])
def test_a_name_that_no_client_can_ask_for_is_refused(name):
    with pytest.raises(CertificateError, match="no client can shake hands with it"):
        validate_files(files(), [name])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (files(issued()), r"subjectAltName \[\] lacks injector, "),
        (
            files(issued(HELD, days=(1, 2))),
            "notBefore .* is still to come at .*; check the clocks or issue it again",
        ),
        (files(issued(HELD, days=(-2, -1))), "notAfter .* is over at .*; issue it again"),
        (files(issued(HELD, issuer=GONE), ca=GONE), r"leads to no valid CA of /tls/ca\.crt"),
        (files(issued(HELD, issuer=LATER), ca=LATER), r"leads to no valid CA of /tls/ca\.crt"),
        (files(issued(HELD, CLIENTS)), "extendedKeyUsage lacks serverAuth; issue it for server use"),
    ],
    ids=["common name alone", "to come", "over", "CA is over", "CA is to come", "for clients alone"],
)
def test_a_pair_that_others_issued_has_names_dates_and_uses(bad, message):
    with pytest.raises(CertificateError, match=message):
        validate_files(bad, NAMES)


def test_a_date_that_is_none_is_refused():
    der = certificate_of(LEAF).public_bytes(Encoding.DER)
    at = der.index(b"\x17\x0d") + 2  # the first UTCTime, of 13 digits
    broken = ssl.DER_cert_to_PEM_cert(der[:at] + b"991399999999Z" + der[at + 13 :]).encode()
    with pytest.raises(CertificateError, match="notBefore is not a valid time; issue it again"):
        validate_files(of(broken, ca=broken), NAMES)


def test_a_key_that_is_too_weak_is_refused_by_openssl_and_said_so():
    weak = issued(HELD, key=rsa.generate_private_key(65537, 1024))  # noqa: S505 the point
    with pytest.raises(CertificateError) as refused:
        validate_files(files(weak), NAMES)
    said = "OpenSSL rejects the pair (EE_KEY_TOO_SMALL); issue a stronger one"
    assert str(refused.value) == f"/tls/tls.crt and tls.key: {said}"


def test_wildcards_cover_one_label_and_case_does_not_matter():
    leaf = make_leaf(AUTHORITY, ["*.gpu.svc"], NOW)
    assert validate_files(files(leaf), ["Injector.GPU.svc"]).sha256 == fingerprint(certificate_of(leaf))
    for uncovered in ("gpu.svc", "a.b.gpu.svc", "*"):
        with pytest.raises(CertificateError, match="lacks"):
            validate_files(files(leaf), [uncovered])


def test_addresses_are_covered_however_they_are_written():
    leaf = make_leaf(AUTHORITY, ["127.0.0.1", "::1"], NOW)
    validate_files(files(leaf), ["127.0.0.1", "::1", "0:0:0:0:0:0:0:1"])
    with pytest.raises(CertificateError, match=r"lacks 127\.0\.0\.2"):
        validate_files(files(leaf), ["127.0.0.2"])


def test_intermediates_of_another_maker_lead_to_their_root():
    kind = trustme.KeyType.RSA
    root = trustme.CA(key_type=kind)
    leaf = root.create_child_ca(key_type=kind).issue_cert("injector.gpu.svc", key_type=kind)
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    pair = KeyPair(chain, leaf.private_key_pem.bytes())
    found = validate_files(TlsFiles(pair, root.cert_pem.bytes()), ["injector.gpu.svc"])
    assert found.issuer_sha256 == fingerprint(certificate_of(KeyPair(root.cert_pem.bytes(), b"")))
    alone = KeyPair(leaf.cert_chain_pems[0].bytes(), pair.key_pem)
    with pytest.raises(CertificateError, match="leads to no valid CA"):
        validate_files(TlsFiles(alone, root.cert_pem.bytes()), ["injector.gpu.svc"])
