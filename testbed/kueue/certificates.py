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
    ca, usage = x509.BasicConstraints(ca=True, path_length=None), [ExtendedKeyUsageOID.SERVER_AUTH]
    names = [x509.DNSName(service), x509.IPAddress(ip_address("127.0.0.1"))]
    return (
        _pair(AUTHORITY, [x509.DNSName(AUTHORITY)], ca, ca_key, ca_key),
        _pair(service, names, x509.ExtendedKeyUsage(usage), leaf_key, ca_key),
    )


def _pair(
    subject: str,
    names: Sequence[x509.GeneralName],
    extension: x509.ExtensionType,
    key: rsa.RSAPrivateKey,
    signer: rsa.RSAPrivateKey,
) -> Pair:
    now = datetime.now(UTC)
    subject_name, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]) for common in (subject, AUTHORITY)
    )
    certificate = (
        x509.CertificateBuilder(issuer, subject_name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + YEARS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(extension, critical=True)
        .sign(signer, hashes.SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), key_pem)
