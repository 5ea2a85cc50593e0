"""When to create, inject, serve and drop certificates: state + observation + time -> next action.

Deterministic and without side effects. All state is in the two Secrets and the caBundle, so that a
new leader continues where the last one stopped. The life of a CA:

| phase | stored | next |
|---|---|---|
| S0 steady | one CA, its leaf is served | a new CA when 2/3 of the old one's life are over |
| S1 stored | the new CA is in `-ca` as `next` | add it to `ca.crt` of `-tls`, then to the caBundle |
| S2 injected | the caBundle has old and new | read it back, list it in `injected-ca` of `-tls` |
| S3 settling | listed since `injected-at` | after 60 s all API servers have it: it becomes the current CA |
| S4 issuing | the old one became `previous` | store a leaf by the current CA in `-tls` |
| S5 spreading | leaf stored | dial every endpoint until all serve it, then set `seen-at` |
| S6 retiring | all serve it | 24 h later: remove `previous` from `-ca`, then `ca.crt`, then the caBundle |

Three rules make it safe with two leaders and stale reads, if each write replaces exactly the version
that was read (resourceVersion), and if `-tls` is read first and `-ca` last:

1. A CA enters `ca.crt` before it enters the caBundle, and leaves `ca.crt` before it leaves the caBundle.
2. A leaf is stored only if the version of `-tls` that it replaces lists its CA in `injected-ca`.
   A leader that drops a CA has changed `-tls` before, so a stale leaf write fails.
3. A CA is never dropped if it issued the stored leaf or one that an endpoint serves. While an endpoint
   is unreachable, no CA of the caBundle is dropped.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from certs.leaf import LEAF_LIFETIME
from certs.observation import Authority, Observation, distinct
from certs.values import LeafFacts


@dataclass(frozen=True, slots=True)
class RotationSettings:
    """How long each phase of a rotation waits; only tests use shorter times."""

    settle: timedelta = timedelta(seconds=60)
    """From reading the caBundle back until a leaf of a new CA may be served."""
    keep_previous: timedelta = timedelta(hours=24)
    """From the time when every endpoint serves the new CA's leaf until the old CA is dropped."""
    retry: timedelta = timedelta(seconds=10)
    """Until endpoints are dialled again, or a missing webhook configuration is read again."""


@dataclass(frozen=True, slots=True)
class StoreNewAuthority:
    """`-ca`: store a new CA as `next`, and these as `previous`."""

    previous: tuple[Authority, ...]
    why: str = field(default="", compare=False)
    """The fault of the CA before, for the log."""


@dataclass(frozen=True, slots=True)
class PromoteAuthority:
    """`-ca`: `next` becomes the current CA, the current one `previous` (its key is deleted)."""


@dataclass(frozen=True, slots=True)
class MarkSeen:
    """`-ca`: all endpoints have served leaves of the current CA since this time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class DropPrevious:
    """Remove the CA `previous` from the Secret `-ca`."""


@dataclass(frozen=True, slots=True)
class StoreTrust:
    """Write these CAs into `ca.crt` of the Secret `-tls`, and the list `injected-ca`; its pair stays."""

    trusted: tuple[Authority, ...]
    injected: frozenset[str]
    injected_at: datetime | None


@dataclass(frozen=True, slots=True)
class IssueLeaf:
    """`-tls`: a new pair by the current CA; the rest stays."""


@dataclass(frozen=True, slots=True)
class WriteBundle:
    """Make the webhook configuration's caBundle consist of exactly these CAs."""

    authorities: tuple[Authority, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until`, unless the observation changes."""

    until: datetime
    why: str


Change = StoreNewAuthority | PromoteAuthority | MarkSeen | DropPrevious | StoreTrust | IssueLeaf | WriteBundle
Action = Change | Wait


class Phase(StrEnum):
    """The phase of a rotation; the value of the metric and of `certs status`."""

    STEADY = "S0-steady"
    STORED = "S1-stored"
    INJECTED = "S2-injected"
    SETTLING = "S3-settling"
    ISSUING = "S4-issuing"
    SPREADING = "S5-spreading"
    RETIRING = "S6-retiring"


def decide(seen: Observation, now: datetime, settings: RotationSettings) -> Action:
    """Return the next action. Carry it out, observe again, decide again.

    Leaf renewal comes first: a problem with a new CA or the caBundle must not let the leaf expire.
    """
    return (
        _renew_leaf(seen, now, settings)
        or _promote(seen, now, settings)
        or _replace_authority(seen, now)
        or _publish(seen, now, settings)
        or _retire(seen, now, settings)
        or _wait(seen, now, settings)
    )


def phase(seen: Observation) -> Phase:
    """Return the phase of the rotation."""
    own, bundle = seen.authorities, seen.bundle or ()
    newest = own.coming or own.current
    if newest is None or newest not in bundle:
        return Phase.STORED
    if newest.sha256 not in seen.tls.injected:
        return Phase.INJECTED
    if own.coming:
        return Phase.SETTLING
    if seen.tls.leaf is None or seen.tls.leaf.issuer_sha256 != newest.sha256:
        return Phase.ISSUING
    if own.previous and own.seen_at is None:
        return Phase.SPREADING
    return Phase.RETIRING if own.previous or len(bundle) > 1 else Phase.STEADY


def renewal_time(certificate: Authority | LeafFacts) -> datetime:
    """Return when two thirds of its life are over."""
    return certificate.not_before + (certificate.not_after - certificate.not_before) * 2 / 3


def _renew_leaf(seen: Observation, now: datetime, settings: RotationSettings) -> Action | None:
    current, leaf = seen.authorities.current, seen.tls.leaf
    if current is None or not _ready(current, seen, now, settings):
        return None
    return None if leaf and _good(leaf, current, now) else IssueLeaf()


def _good(leaf: LeafFacts, current: Authority, now: datetime) -> bool:
    if leaf.issuer_sha256 != current.sha256 or not _valid(leaf, now) or leaf.not_after > current.not_after:
        return False
    # Near the end of a CA a new leaf would expire with it too: renewal must gain time.
    return now < renewal_time(leaf) or leaf.not_after >= min(now + LEAF_LIFETIME, current.not_after)


def _promote(seen: Observation, now: datetime, settings: RotationSettings) -> Action | None:
    coming = seen.authorities.coming
    return PromoteAuthority() if coming and _ready(coming, seen, now, settings) else None


def _replace_authority(seen: Observation, now: datetime) -> Action | None:
    own = seen.authorities
    newest = own.coming or own.current
    if newest and _valid(newest, now) and (own.coming or now < renewal_time(newest)):
        return None
    kept = distinct((*own.previous, *(seen.bundle or ())))
    return StoreNewAuthority(tuple(ca for ca in kept if ca != own.current), _fault(newest, now))


def _fault(newest: Authority | None, now: datetime) -> str:
    if newest is None:
        return "no CA is stored whose key could sign"
    return "two thirds of its life are over" if _valid(newest, now) else "it is not valid at this time"


def _publish(seen: Observation, now: datetime, settings: RotationSettings) -> Action | None:
    trust, tls = _trust(seen), seen.tls
    digests = frozenset(ca.sha256 for ca in trust)
    if set(tls.trusted) != set(trust):
        return StoreTrust(trust, tls.injected & digests, tls.injected_at)
    if seen.bundle is None:
        return Wait(now + settings.retry, "the webhook configuration is missing")
    if set(seen.bundle) != set(trust):
        return WriteBundle(trust)
    stamp = tls.injected_at
    if not digests <= tls.injected or stamp is None or stamp > now:
        return StoreTrust(trust, digests, now)
    return StoreTrust(trust, digests, stamp) if tls.injected != digests else None


def _trust(seen: Observation) -> tuple[Authority, ...]:
    """Return the CAs that clients must trust: all of `-ca`, and those in use.

    An endpoint serves only leaves of CAs that were once in the caBundle (`injected-ca`), so its CA may also
    come from `ca.crt`. The CA of a leaf that is only stored must be in the caBundle: someone may have stored
    the leaf by hand.
    """
    own, bundle, published = seen.authorities, seen.bundle or (), seen.tls.trusted
    served = set(seen.served.values())
    stored = seen.tls.leaf.issuer_sha256 if seen.tls.leaf else None
    # If the Secrets were edited by hand, an unreachable endpoint may serve a leaf of any CA of the caBundle.
    unsure = None in served
    return distinct(
        (
            *own.previous,
            *(ca for ca in (own.current, own.coming) if ca),
            *(ca for ca in bundle if unsure or ca.sha256 == stored),
            *(ca for ca in (*bundle, *published) if ca.sha256 in served),
        )
    )


def _retire(seen: Observation, now: datetime, settings: RotationSettings) -> Action | None:
    own, leaf = seen.authorities, seen.tls.leaf
    if not own.previous or own.coming or own.current is None or leaf is None:
        return None
    if any(maker != own.current.sha256 for maker in (leaf.issuer_sha256, *seen.served.values())):
        return Wait(now + settings.retry, "not every endpoint serves a leaf of the current CA yet")
    if own.seen_at is None or own.seen_at > now:
        return MarkSeen(now)
    return DropPrevious() if now >= own.seen_at + settings.keep_previous else None


def _wait(seen: Observation, now: datetime, settings: RotationSettings) -> Wait:
    own, leaf = seen.authorities, seen.tls.leaf
    if own.coming or own.current is None or leaf is None or leaf.issuer_sha256 != own.current.sha256:
        return Wait((seen.tls.injected_at or now) + settings.settle, "API servers learn the new caBundle")
    if own.previous and own.seen_at:
        return Wait(own.seen_at + settings.keep_previous, "the old CA is kept for stragglers")
    return Wait(min(renewal_time(own.current), renewal_time(leaf)), "certificates are fresh")


def _ready(authority: Authority, seen: Observation, now: datetime, settings: RotationSettings) -> bool:
    """Whether every API server can be expected to trust leaves of this CA."""
    if not _valid(authority, now) or authority not in (seen.bundle or ()):
        return False
    if authority.sha256 not in seen.tls.injected or seen.tls.injected_at is None:
        return False
    only_one = _trust(seen) == (authority,)
    # The first CA of an installation replaces none: admission begins with it.
    return only_one or timedelta() <= now - seen.tls.injected_at >= settings.settle


def _valid(certificate: Authority | LeafFacts, now: datetime) -> bool:
    return certificate.not_before <= now < certificate.not_after
