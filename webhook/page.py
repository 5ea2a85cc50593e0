"""What the page shows of a standalone webhook: the ledger in its process, and whom it denied lately."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ledger.ledger import Ledger
from service.changes import Changes
from service.yielding import Turns
from webhook.admission.denial import Reason
from webhook.decision import Outcome
from webhook.request import Request

HOUR_SECONDS = 3600.0
MINUTE_SECONDS = 60.0


class StandaloneSource:
    """The ledger of a standalone webhook, which nobody changes but the webhook itself."""

    missing = None

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.turns = Turns()
        self._readers: list[Changes] = []
        ledger.on_promise = self._mark

    def subscribe(self) -> Changes:
        """Begin to note changes for one reader, with every node as changed; ends with `unsubscribe`."""
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


class Denied(NamedTuple):
    """Pods that were denied for one reason."""

    reason: str
    pods: int


class RecentDenials:
    """Denials of the last hour by reason, counted by the minute: no larger than there are reasons."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._minutes: deque[tuple[float, Counter[Reason]]] = deque()

    def __call__(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        """Count one decision, if it is a denial and no dry run."""
        if outcome.denial is None or request.dry_run:
            return
        now = self._clock()
        if not self._minutes or self._minutes[-1][0] + MINUTE_SECONDS <= now:
            self._minutes.append((now, Counter()))
        self._minutes[-1][1][outcome.reason] += 1
        self._forget(now)

    def of_last_hour(self) -> Sequence[Denied]:
        """Return the sums, most pods first."""
        self._forget(self._clock())
        total = sum([counted for _, counted in self._minutes], Counter[Reason]())
        return [Denied(reason.value, pods) for reason, pods in total.most_common()]

    def _forget(self, now: float) -> None:
        while self._minutes and self._minutes[0][0] + HOUR_SECONDS <= now:
            self._minutes.popleft()
