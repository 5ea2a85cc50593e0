"""What the page of a standalone webhook shows besides the ledger: recent denials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ledger.denial_counts import DenialWindow
from ledger.messages import DenialCount
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.denial_reports import denial_count


class RecentDenials:
    """Denials of the last hour, for the page of the same process; give it to the reviewer as an observer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._window = DenialWindow()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Count one decision, if it is a denial and not a dry run."""
        if outcome.denial is not None and not request.dry_run:
            self._window.add(denial_count(request, outcome.denial), self._clock())

    def of_last_hour(self) -> Sequence[DenialCount]:
        """Return the sums, the latest denial first."""
        return self._window.of_last_hour(self._clock())
