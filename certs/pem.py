"""Reads and writes certificates and keys as PEM, and identifies certificates."""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from certs.values import CertificateError


def load_certificates(pem: bytes, file: str) -> list[x509.Certificate]:
    """Return the certificates of a PEM text in order; `file` is the name to use in errors.

    Raises CertificateError if there is none or one is unreadable.
    """
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise CertificateError(
            f"{file}: holds no certificate ({len(pem)} bytes); expected PEM, -----BEGIN CERTIFICATE-----"
        )
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError(
            f"{file}: a certificate in it cannot be read ({error}); write the file whole, as PEM"
        ) from error


def load_key(pem: bytes, file: str) -> PrivateKeyTypes:
    """Return the private key of a PEM text. Raises CertificateError if it is missing, encrypted or torn."""
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{file}: holds no private key without a password ({error})") from error


def to_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return the certificates as one PEM text."""
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of the DER form as 64 lower-case hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()
