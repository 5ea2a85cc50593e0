"""The certificate that Kueue's own certificate manager finds in its Secret, and keeps because it is valid."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "kueue-ca"
"""The name that Kueue verifies its CA for."""
YEARS = timedelta(days=3650)


class Pair(NamedTuple):
    """A certificate and its key, in PEM; the key as PKCS 1, which is all that Kueue reads."""

    certificate: bytes
    key: bytes


def make_pairs(service: str) -> tuple[Pair, Pair]:
    """Return a CA, and a leaf of it for a service's DNS name and this machine's loopback address."""
    ca_key, leaf_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    ca_name = x509.DNSName(AUTHORITY)
    ca = _certificate(AUTHORITY, ca_key.public_key(), [ca_name]).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    names = [x509.DNSName(service), x509.IPAddress(ip_address("127.0.0.1"))]
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = _certificate(service, leaf_key.public_key(), names).add_extension(usage, critical=False)
    return _signed(ca, ca_key, ca_key), _signed(leaf, leaf_key, ca_key)


def _certificate(
    subject: str, key: rsa.RSAPublicKey, names: Sequence[x509.GeneralName]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(AUTHORITY))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + YEARS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _signed(builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey, signer: rsa.RSAPrivateKey) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), key_pem)
