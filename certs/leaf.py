"""Serving certificates signed by the product's own CA, and the names for which they are valid."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import BACKDATE, common_name, key_to_pem, key_usage, start_certificate, whole_second
from certs.pem import load_certificates, load_key, to_pem
from certs.values import CertificateError, KeyPair, format_time

LEAF_LIFETIME = timedelta(days=30)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""Names by which clients reach a self-signed webhook on this machine."""


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the four DNS names of a Kubernetes Service; the API server uses `<service>.<namespace>.svc`."""
    qualified = f"{service}.{namespace}"
    return service, qualified, f"{qualified}.svc", f"{qualified}.svc.cluster.local"


def make_leaf(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """Return a new leaf for server and client use, valid 30 days from `now`, but not longer than its CA.

    `names` are DNS names or IP addresses; the first one also becomes the subject.
    Raises CertificateError if the CA is not valid at `now`.
    """
    issuer = load_certificates(authority.certificate_pem, "CA certificate")[0]
    issuer_key = load_key(authority.key_pem, "CA key")
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("CA key: is not an EC key; use a CA made by make_authority")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _describe(issuer, key.public_key(), names, whole_second(now)).sign(
        issuer_key, hashes.SHA256()
    )
    return KeyPair(to_pem([certificate]), key_to_pem(key))


def _describe(
    issuer: x509.Certificate, key: ec.EllipticCurvePublicKey, names: Sequence[str], now: datetime
) -> x509.CertificateBuilder:
    not_before, not_after = _dates(issuer, now)
    usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        start_certificate(common_name(names[0]), key, not_before, not_after)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False
        )
    )


def _dates(issuer: x509.Certificate, now: datetime) -> tuple[datetime, datetime]:
    if not issuer.not_valid_before_utc <= now < issuer.not_valid_after_utc:
        raise CertificateError(
            f"CA certificate: is valid from {format_time(issuer.not_valid_before_utc)} to "
            f"{format_time(issuer.not_valid_after_utc)}, and it is {format_time(now)}; make a new CA"
        )
    return (
        max(now - BACKDATE, issuer.not_valid_before_utc),
        min(now + LEAF_LIFETIME, issuer.not_valid_after_utc),
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
