"""The page's data in a standalone webhook: the ledger in its process, and recent denials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ledger.denial_counts import DenialWindow
from ledger.ledger import Ledger
from ledger.messages import DenialCount
from service.changes import Changes
from service.yielding import CooperativeYield
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.denial_reports import denial_count


class StandaloneSource:
    """The ledger of a standalone webhook, which only the webhook itself changes."""

    missing = None

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.yielding = CooperativeYield()
        self._readers: list[Changes] = []
        ledger.on_promise = self._mark

    def subscribe(self) -> Changes:
        """Start to record changes for one reader, with every node as changed; ends with `unsubscribe`."""
        changes = Changes()
        for name in self.ledger.names():
            changes.mark(name)
        self._readers.append(changes)
        return changes

    def unsubscribe(self, changes: Changes) -> None:
        """Forget a reader; the inverse of `subscribe`."""
        self._readers.remove(changes)

    def _mark(self, node: str | None) -> None:
        for reader in self._readers:
            reader.mark(node)


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
