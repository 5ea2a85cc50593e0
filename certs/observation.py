"""The input of the certificate rotation: two Secrets, the caBundle, and what each endpoint serves.

Unusable content (incomplete, or edited by hand) counts as absent, and the rotation replaces it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.inspection import is_authority, is_good_for, is_key_of, signed_by
from certs.pem import fingerprint, load_certificates, load_key, to_pem
from certs.values import CertificateError, LeafFacts
from kube.names import INJECTED_AT_ANNOTATION, SEEN_AT_ANNOTATION

_PEM_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SecretContent:
    """A Secret in the API, with values decoded from base64."""

    data: Mapping[str, bytes] = field(repr=False)
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the controller reads. Read `tls` first and `authorities` last: see certs.rotation."""

    tls: SecretContent | None
    """The `-tls` Secret, mounted by the webhook; None if there is none."""
    bundle_pem: bytes | None
    """caBundle of the webhook configuration's entry; None if there is no such configuration."""
    authorities: SecretContent | None
    """The `-ca` Secret, which only the controller uses; None if there is none."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA certificate; two are equal if their SHA-256 is."""

    sha256: str
    not_before: datetime = field(compare=False)
    not_after: datetime = field(compare=False)
    pem: bytes = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StoredAuthorities:
    """What the Secret `-ca` holds: the current CA, and the previous or next one."""

    current: Authority | None = None
    """Signs leaves: `ca.crt` and `ca.key`."""
    coming: Authority | None = None
    """Stored, but not yet trusted by all clients: `next.crt` and `next.key`."""
    previous: tuple[Authority, ...] = ()
    """Signed leaves earlier and are still trusted: `previous.crt`, and any CA whose key is lost."""
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredTls:
    """What the Secret `-tls` holds: the served pair and the trusted CAs."""

    leaf: LeafFacts | None = None
    """None if the pair is unusable or no known CA issued it; its dates are not checked."""
    trusted: tuple[Authority, ...] = ()
    """`ca.crt`."""
    injected: frozenset[str] = frozenset()
    """`injected-ca`."""
    injected_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """All that decides the next step of a rotation, apart from the time."""

    tls: StoredTls
    bundle: tuple[Authority, ...] | None
    """None if there is no webhook configuration."""
    authorities: StoredAuthorities
    served: Mapping[str, str | None]
    """By endpoint: SHA-256 of the CA that issued its leaf; None if the endpoint is unreachable or the CA is
    unknown."""


def observe(stored: Stored, served: Mapping[str, bytes | None], names: Sequence[str]) -> Observation:
    """Interpret what was read.

    `served` holds, for each endpoint to which the Service may send requests, the leaf that it serves
    (PEM), or None if it does not answer. `names` are those for which a leaf must be valid.
    """
    authorities = read_authorities(stored.authorities)
    tls_data = stored.tls.data if stored.tls else {}
    bundle = None if stored.bundle_pem is None else readable_authorities(stored.bundle_pem)
    trusted = readable_authorities(tls_data.get("ca.crt", b""))
    own = (authorities.current, authorities.coming, *authorities.previous)
    known = distinct((*(bundle or ()), *trusted, *(ca for ca in own if ca)))
    tls = StoredTls(
        leaf=_read_leaf(tls_data, known, names),
        trusted=trusted,
        injected=frozenset(tls_data.get("injected-ca", b"").decode("ascii", "replace").split()),
        injected_at=_read_time(stored.tls, INJECTED_AT_ANNOTATION),
    )
    makers = {endpoint: _maker(leaf, known) for endpoint, leaf in served.items()}
    return Observation(tls, bundle, authorities, makers)


def readable_authorities(pem: bytes) -> tuple[Authority, ...]:
    """Return the CAs of a PEM text, each once; blocks that are incomplete or not a CA are skipped."""
    return distinct(ca for block in _PEM_BLOCK.findall(pem) if (ca := _read_authority(block)))


def distinct(authorities: Iterable[Authority]) -> tuple[Authority, ...]:
    """Return each CA once, in order of first appearance."""
    return tuple(dict.fromkeys(authorities))


def _read_authority(pem: bytes) -> Authority | None:
    try:
        certificate = load_certificates(pem, "CA")[0]
    except CertificateError:
        return None
    if not is_authority(certificate):
        return None
    return Authority(
        fingerprint(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        to_pem([certificate]),
    )


def read_authorities(content: SecretContent | None) -> StoredAuthorities:
    """Return the usable content of the `-ca` Secret."""
    data = content.data if content else {}
    current, coming = _signing(data, "ca"), _signing(data, "next")
    stored = distinct(
        ca
        for name in ("previous.crt", "ca.crt", "next.crt")
        for ca in readable_authorities(data.get(name, b""))
        if ca not in (current, coming)
    )
    return StoredAuthorities(current, coming, stored, _read_time(content, SEEN_AT_ANNOTATION))


def _signing(data: Mapping[str, bytes], name: str) -> Authority | None:
    """Return the CA with that name, if its key is present to sign with."""
    pem = data.get(f"{name}.crt", b"")
    try:
        certificate = load_certificates(pem, name)[0]
        key = load_key(data.get(f"{name}.key", b""), name)
    except CertificateError:
        return None
    usable = isinstance(key, ec.EllipticCurvePrivateKey) and is_key_of(key, certificate)
    return _read_authority(pem) if usable else None


def _read_leaf(
    data: Mapping[str, bytes], known: Sequence[Authority], names: Sequence[str]
) -> LeafFacts | None:
    pem = data.get("tls.crt", b"")
    try:
        leaf = load_certificates(pem, "tls.crt")[0]
        key = load_key(data.get("tls.key", b""), "tls.key")
    except CertificateError:
        return None
    maker = _maker(pem, known)
    if maker is None or not is_key_of(key, leaf) or not is_good_for(leaf, names):
        return None
    return LeafFacts(fingerprint(leaf), maker, leaf.not_valid_before_utc, leaf.not_valid_after_utc)


def _maker(leaf_pem: bytes | None, known: Sequence[Authority]) -> str | None:
    if leaf_pem is None:
        return None
    leaf = x509.load_pem_x509_certificate(leaf_pem)
    makers = (ca for ca in known if signed_by(leaf, x509.load_pem_x509_certificate(ca.pem)))
    maker = next(makers, None)
    return maker.sha256 if maker else None


def _read_time(content: SecretContent | None, annotation: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat((content.annotations if content else {}).get(annotation, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else None
