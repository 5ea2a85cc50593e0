"""What an action of the rotation writes: the new content of one Secret or of the caBundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, assert_never

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.observation import Authority, SecretContent, Stored, read_authorities
from certs.rotation import (
    Change,
    DropPrevious,
    IssueLeaf,
    MarkSeen,
    PromoteAuthority,
    StoreNewAuthority,
    StoreTrust,
    WriteBundle,
)
from certs.values import KeyPair, format_time
from kube.names import INJECTED_AT_ANNOTATION, SEEN_AT_ANNOTATION

Suffix = Literal["ca", "tls"]
"""What the names of the two Secrets end in."""


@dataclass(frozen=True, slots=True)
class SecretWrite:
    """Create or replace the Secret, if it is still at the version that was read."""

    suffix: Suffix
    content: SecretContent


@dataclass(frozen=True, slots=True)
class CaBundleWrite:
    """Replace the caBundle, if the webhook configuration is still at the version that was read."""

    pem: bytes


Write = SecretWrite | CaBundleWrite


def prepare_write(change: Change, stored: Stored, names: Sequence[str], now: datetime) -> Write:
    """Return the write that carries out `change`, decided on `stored` at `now`; creates keys, writes nothing.

    Other content of the Secrets stays. Raises CertificateError if a CA cannot sign at `now`.
    """
    match change:
        case WriteBundle():
            return CaBundleWrite(_joined(change.authorities))
        case StoreTrust() | IssueLeaf():
            return SecretWrite("tls", _tls_secret(change, stored, names, now))
        case _:
            return SecretWrite("ca", _authority_secret(change, stored.authorities, now))


def _tls_secret(
    change: StoreTrust | IssueLeaf, stored: Stored, names: Sequence[str], now: datetime
) -> SecretContent:
    if isinstance(change, IssueLeaf):
        data = stored.authorities.data if stored.authorities else {}
        leaf = make_leaf(KeyPair(data.get("ca.crt", b""), data.get("ca.key", b"")), names, now)
        return _changed(stored.tls, {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}, {})
    return _changed(
        stored.tls,
        {
            "ca.crt": _joined(change.trusted),
            "injected-ca": "".join(f"{digest}\n" for digest in sorted(change.injected)).encode(),
        },
        {INJECTED_AT_ANNOTATION: format_time(change.injected_at) if change.injected_at else None},
    )


def _authority_secret(
    change: StoreNewAuthority | PromoteAuthority | MarkSeen | DropPrevious,
    content: SecretContent | None,
    now: datetime,
) -> SecretContent:
    match change:
        case StoreNewAuthority():
            coming = make_authority(now)
            pair = {"next.crt": coming.certificate_pem, "next.key": coming.key_pem}
            return _changed(content, {**pair, "previous.crt": _joined(change.previous) or None}, {})
        case PromoteAuthority():
            return _promoted(content)
        case MarkSeen():
            return _changed(content, {}, {SEEN_AT_ANNOTATION: format_time(change.at)})
        case DropPrevious():
            # A `next.crt` that has lost its key counts as previous, and is removed with it.
            return _changed(
                content, dict.fromkeys(("previous.crt", "next.crt", "next.key")), {SEEN_AT_ANNOTATION: None}
            )
        case _:
            assert_never(change)


def _promoted(content: SecretContent | None) -> SecretContent:
    data, read = content.data if content else {}, read_authorities(content)
    previous = (*read.previous, read.current) if read.current else read.previous
    moved = {"ca.crt": data.get("next.crt"), "ca.key": data.get("next.key")}
    gone = dict.fromkeys(("next.crt", "next.key"))
    return _changed(
        content, {**moved, **gone, "previous.crt": _joined(previous) or None}, {SEEN_AT_ANNOTATION: None}
    )


def _joined(authorities: Sequence[Authority]) -> bytes:
    return b"".join(ca.pem for ca in authorities)


def _changed(
    content: SecretContent | None, data: Mapping[str, bytes | None], annotations: Mapping[str, str | None]
) -> SecretContent:
    """Return the content with these values set; None removes a key."""
    before = content or SecretContent({}, {})
    return SecretContent(
        {key: value for key, value in {**before.data, **data}.items() if value is not None},
        {key: text for key, text in {**before.annotations, **annotations}.items() if text is not None},
    )
