"""Warns of certificates that expire soon and are not renewed, by Events on their Secret."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from certs.observation import Authority, Observation
from certs.rotation import renewal_time
from certs.values import LeafFacts
from kube.events import event, event_name

WARN_BEFORE = timedelta(days=14)
RENEWAL_TAKES = timedelta(days=1)
"""A renewal that is this late is not being handled."""


@dataclass(frozen=True, slots=True)
class ExpiryWarning:
    """A certificate that expires within 14 days."""

    secret: str
    sha256: str
    message: str

    def event(self, namespace: str, now: datetime) -> dict[str, Any]:
        """Return the Event, which has the same name for the same certificate on the same day."""
        name = event_name(self.secret, f"{self.sha256} {now.date()}")
        involved = {"kind": "Secret", "namespace": namespace, "name": self.secret}
        return event(involved, "CertificateExpires", self.message, name=name, now=now)


def warnings(seen: Observation, name: str, now: datetime) -> list[ExpiryWarning]:
    """Return the certificates of an installation whose renewal is overdue."""
    leaf, authority = seen.tls.leaf, seen.authorities.current
    found = []
    if leaf is not None and _overdue(leaf, now):
        found.append(_warning(f"{name}-tls", "the leaf", leaf, now))
    if authority is not None and _overdue(authority, now):
        found.append(_warning(f"{name}-ca", "the CA", authority, now))
    return found


def _overdue(certificate: Authority | LeafFacts, now: datetime) -> bool:
    late = now >= renewal_time(certificate) + RENEWAL_TAKES
    return late and certificate.not_after - now <= WARN_BEFORE


def _warning(secret: str, what: str, certificate: Authority | LeafFacts, now: datetime) -> ExpiryWarning:
    days = (certificate.not_after - now).days
    message = f"{what} expires in {days} days and was not renewed: see the controller's log, and certs status"
    return ExpiryWarning(secret, certificate.sha256, message)
