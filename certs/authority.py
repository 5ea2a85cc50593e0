"""The product's own certificate authority."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.pem import to_pem
from certs.values import KeyPair

AUTHORITY_LIFETIME = timedelta(days=365)
BACKDATE = timedelta(hours=1)
"""How far notBefore is in the past, so that a peer whose clock is behind accepts the certificate at once."""

_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def make_authority(now: datetime) -> KeyPair:
    """Return a new self-signed CA with a new EC P-256 key, valid one year from `now` (aware).

    Its subject contains the key's identifier: two CAs of one installation, which share a caBundle
    during a rotation, never have the same name.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = common_name(f"fraction-injector CA {key_id.digest.hex()[:16]}")
    start = whole_second(now)
    certificate = (
        start_certificate(name, key.public_key(), start - BACKDATE, start + AUTHORITY_LIFETIME)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(to_pem([certificate]), key_to_pem(key))


def start_certificate(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    """Start a CA or a leaf: subject, key, random serial, dates, key identifier."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def common_name(text: str) -> x509.Name:
    """Return a name of one common name, cut to the 64 characters that X.509 allows."""
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def key_usage(*allowed: str) -> x509.KeyUsage:
    """Return a key usage extension that allows exactly the named usages."""
    return x509.KeyUsage(**{**_NO_USAGE, **dict.fromkeys(allowed, True)})


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the private key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def whole_second(now: datetime) -> datetime:
    """Return `now` (aware) in UTC without fractions, which X.509 dates cannot have."""
    return now.astimezone(UTC).replace(microsecond=0)
