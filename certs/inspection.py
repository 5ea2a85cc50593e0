"""What a certificate states, and who issued it, for the rotation."""

from collections.abc import Iterable
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def signed_by(subject: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Return whether `issuer`, a CA, issued `subject`; dates are not checked."""
    if not is_authority(issuer):
        return False
    try:
        subject.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether its basic constraints allow it to issue certificates."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def is_key_of(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    """Return whether the certificate was issued for this key."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def is_good_for(certificate: x509.Certificate, names: Iterable[str]) -> bool:
    """Return whether its subject alternative names cover all these DNS names and IP addresses."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    held = {n.lower() for n in alternatives.get_values_for_type(x509.DNSName)}
    held |= {str(a) for a in alternatives.get_values_for_type(x509.IPAddress)}
    return all(_covers(held, name) for name in names)


def _covers(held: set[str], name: str) -> bool:
    try:
        return str(ip_address(name)) in held
    except ValueError:
        _, _, parent = name.lower().partition(".")
        return name.lower() in held or (bool(parent) and f"*.{parent}" in held)
