"""What an API server asks of a pair (Go's crypto/x509), at any time: the oracle of certs.validation."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.inspection import signed_by
from certs.pem import fingerprint, load_certificates, load_key
from certs.values import CertificateError, LeafFacts, TlsFiles, format_time

_MAX_CHAIN = 8


def validate_files(files: TlsFiles, names: Iterable[str], now: datetime) -> LeafFacts:
    """The facts of the leaf in `files`, if clients that trust `ca.crt` accept it for all `names`.

    Raises CertificateError with the file, the value and the rule that is broken.
    """
    file = f"{files.source}/tls.crt"
    leaf, *intermediates = load_certificates(files.pair.certificate_pem, file)
    check_key(leaf, files)
    _check_dates(leaf, now, file)
    _check_usage(leaf, file)
    check_names(leaf, names, file)
    authorities = load_certificates(files.ca_pem, f"{files.source}/ca.crt")
    anchor = find_anchor(leaf, intermediates, authorities, now)
    if anchor is None:
        raise CertificateError(
            f"{file}: issued by {leaf.issuer.rfc4514_string()!r}, which leads to no valid CA of "
            f"{files.source}/ca.crt; store the pair and its CA together"
        )
    return LeafFacts(
        fingerprint(leaf), fingerprint(anchor), leaf.not_valid_before_utc, leaf.not_valid_after_utc
    )


def find_anchor(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    now: datetime,
) -> x509.Certificate | None:
    """The certificate among `authorities` that the chain of `leaf` ends in, None if it ends nowhere."""
    current = leaf
    for _ in range(_MAX_CHAIN):
        if current in authorities:
            return current
        issuers = (c for c in (*authorities, *intermediates) if c != current and _issued(c, current, now))
        issuer = next(issuers, None)
        if issuer is None:
            return None
        current = issuer
    return None


def _issued(issuer: x509.Certificate, subject: x509.Certificate, now: datetime) -> bool:
    return issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc and signed_by(subject, issuer)


def check_key(leaf: x509.Certificate, files: TlsFiles) -> None:
    """Raise CertificateError unless `tls.key` is the key of `leaf`, the first certificate of `tls.crt`."""
    key = load_key(files.pair.key_pem, f"{files.source}/tls.key")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise CertificateError(
            f"{files.source}/tls.key: is not the key of {files.source}/tls.crt "
            f"(serial {leaf.serial_number:x}); store both of one pair"
        )


def _check_dates(leaf: x509.Certificate, now: datetime, file: str) -> None:
    if now < leaf.not_valid_before_utc:
        raise CertificateError(
            f"{file}: notBefore {format_time(leaf.not_valid_before_utc)} is still to come "
            f"at {format_time(now)}; check the clocks or issue it again"
        )
    if now > leaf.not_valid_after_utc:
        raise CertificateError(
            f"{file}: notAfter {format_time(leaf.not_valid_after_utc)} is over "
            f"at {format_time(now)}; issue it again"
        )


def _check_usage(leaf: x509.Certificate, file: str) -> None:
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}.isdisjoint(usages):
        raise CertificateError(f"{file}: extendedKeyUsage lacks serverAuth; issue it for server use")


def check_names(leaf: x509.Certificate, names: Iterable[str], file: str) -> None:
    """Raise CertificateError unless the subject alternative names of `leaf` cover all `names`."""
    try:
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    held = {n.lower() for n in alternatives.get_values_for_type(x509.DNSName)}
    held |= {str(a) for a in alternatives.get_values_for_type(x509.IPAddress)}
    missing = [name for name in names if not _covers(held, name)]
    if missing:
        raise CertificateError(
            f"{file}: subjectAltName {sorted(held)} lacks {', '.join(missing)}; "
            "issue it for every name it is dialled by"
        )


def _covers(held: set[str], name: str) -> bool:
    try:
        return str(ip_address(name)) in held
    except ValueError:
        _, _, parent = name.lower().partition(".")
        return name.lower() in held or (bool(parent) and f"*.{parent}" in held)
