"""What a standalone webhook's page shows: promises as they are made, and denials of the last hour."""

import asyncio
from types import SimpleNamespace

from ledger.messages import DenialCount
from modes.fraction import Fraction
from tests.controller.watch.test_ledger_store import Clock
from tests.ledger.cluster import request_of
from tests.web.asking import Source
from web.source import LocalSource
from webhook.admission.denial import Denial, Reason
from webhook.decision import Outcome
from webhook.page import RecentDenials

REAL, DRY_RUN = (SimpleNamespace(namespace="team", dry_run=dry_run) for dry_run in (False, True))


def denied(reason):
    return Outcome.of(Denial.of(reason, "why"), None)


def test_each_promise_reaches_every_reader():
    ledger = Source("a", "b").ledger
    source = LocalSource(ledger)

    async def main():
        one, other = source.subscribe(), source.subscribe()
        assert one.take() == other.take() == ["a", "b"]
        placed = ledger.place(request_of(Fraction(4, 8), reservation="r"), now=0.0)
        reported = one.take(), other.take()
        source.unsubscribe(other)
        ledger.release("r")
        return placed.node, reported, one.take(), other.take()

    node, reported, after, unsubscribed = asyncio.run(main())
    assert (reported, after, unsubscribed) == (([node], [node]), [node], [])


def test_denials_are_counted_by_reason_and_namespace_and_nothing_else_is():
    clock = Clock()
    recent = RecentDenials(clock)
    recent(REAL, denied(Reason.LABEL), 0.0)
    recent(REAL, Outcome(Reason.INJECTED), 0.0)
    recent(DRY_RUN, denied(Reason.OVER_QUOTA), 0.0)
    for _ in range(2):
        recent(REAL, denied(Reason.MEMORY), 0.0)
    assert recent.of_last_hour() == [
        DenialCount("memory-too-small", "team", 2, "why"),
        DenialCount("label-not-allowed", "team", 1, "why"),
    ]
