"""The certificate of a standalone webhook: created at start, in memory, for this machine."""

from dataclasses import dataclass
from datetime import datetime

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.pem import load_certificates
from certs.values import KeyPair


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A leaf for localhost, 127.0.0.1 and ::1, and the CA to trust; the CA's key is discarded."""

    ca_pem: bytes
    pair: KeyPair
    not_after: datetime
    """When the leaf expires."""


def self_signed(now: datetime) -> SelfSigned:
    """Return a new CA and its only leaf, valid 30 days from `now` (aware)."""
    authority = make_authority(now)
    pair = make_leaf(authority, LOCAL_NAMES, now)
    leaf = load_certificates(pair.certificate_pem, "leaf")[0]
    return SelfSigned(authority.certificate_pem, pair, leaf.not_valid_after_utc)
