"""Certificates as plain values, for code that passes them on without parsing them."""

from dataclasses import dataclass, field
from datetime import UTC, datetime


class CertificateError(ValueError):
    """A certificate, key or CA file that must not be used; the text names file, value and rule."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate chain and the private key of its first certificate, both as PEM."""

    certificate_pem: bytes
    """The certificate first, then any intermediates."""
    key_pem: bytes = field(repr=False)
    """Unencrypted; excluded from repr so that it never appears in a log."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The content of a TLS Secret, mounted as files or read from the API."""

    pair: KeyPair
    """`tls.crt` and `tls.key`."""
    ca_pem: bytes
    """`ca.crt`: the CAs that clients should trust, old and new during a rotation."""
    injected_ca: frozenset[str] = frozenset()
    """`injected-ca`: SHA-256 of the CAs that the controller has read back from the caBundle."""
    source: str = "Secret"
    """Directory or Secret, for errors."""


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """What is known of a leaf certificate that was validated."""

    sha256: str
    issuer_sha256: str
    """The CA of `ca.crt` at which its chain ends."""
    not_before: datetime
    not_after: datetime


def format_time(moment: datetime) -> str:
    """Return the aware time as RFC 3339 in UTC with whole seconds, `2026-11-20T23:35:09Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
