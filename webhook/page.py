"""What the page of a standalone webhook shows besides the ledger: denials, and names of admitted pods."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from kube.names import MAX_NAME
from ledger.denial_counts import DenialWindow
from ledger.messages import DenialCount
from ledger.reservations import MAX_RESERVATIONS
from web.source import AdmittedPod
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.denial_reports import denied_of


class RecentDenials:
    """Denials of the last hour, for the page of the same process; give it to the reviewer as an observer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._window = DenialWindow()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Count one decision, if it is a denial and not a dry run."""
        if (denied := denied_of(request, outcome)) is not None:
            self._window.add(denied, self._clock())

    def of_last_hour(self) -> Sequence[DenialCount]:
        """Return the sums, the latest denial first."""
        return self._window.of_last_hour(self._clock())


class AdmittedPods:
    """Pods that were admitted, by their reservations, which have the uid of their review; an observer too."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._found: OrderedDict[str, AdmittedPod] = OrderedDict()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Remember the pod of one decision, if it got a share. The oldest are forgotten first."""
        if outcome.injection is None or not outcome.patch or request.dry_run:
            return
        created = self._now().isoformat(timespec="seconds")
        self._found[request.uid] = AdmittedPod(request.pod_name()[:MAX_NAME], created)
        while len(self._found) > MAX_RESERVATIONS:
            self._found.popitem(last=False)

    def of(self, reservation: str) -> AdmittedPod:
        """Return the pod of a reservation; an empty name if it is unknown."""
        return self._found.get(reservation, AdmittedPod())
