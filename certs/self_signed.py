"""The certificate of a standalone webhook: made at start, in memory, for this machine."""

from datetime import datetime

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.pair import SelfSigned
from certs.pem import load_certificates


def self_signed(now: datetime) -> SelfSigned:
    """A new CA and its one leaf, valid 30 days from `now` (aware)."""
    authority = make_authority(now)
    pair = make_leaf(authority, LOCAL_NAMES, now)
    leaf = load_certificates(pair.certificate_pem, "leaf")[0]
    return SelfSigned(authority.certificate_pem, pair, leaf.not_valid_after_utc)
