"""What takes the event loop too long is decided by a worker, and nothing else ends with it."""

import asyncio
import inspect
import os
import sys

import pytest

from tests.webhook.test_inline_budget import loop_for_ever
from tests.webhook.worker.running import Bench, code
from tests.webhook.worker.test_workers import StandIn
from webhook import review
from webhook.admission_review import UnreadableReviewError
from webhook.decision import Pending
from webhook.inline_budget import OverrunError
from webhook.review import Reviewer
from webhook.rules import Rules

HERE = os.getpid()


class SlowHere(Rules):
    """Rules that never end in this process, and that a worker has no trouble with."""

    def __init__(self, *, finishing=False):
        self.begun = 0
        self._finishing = finishing

    def begin(self, request, resolved):
        self.begun += 1
        if os.getpid() == HERE and not self._finishing:
            loop_for_ever()
        begun = super().begin(request, resolved)
        if os.getpid() == HERE:
            return Pending(begun.request, lambda _: loop_for_ever(), begun.policy)
        return begun


def test_what_takes_the_event_loop_too_long_is_decided_by_a_worker_and_so_is_what_follows_it():
    rules = SlowHere()
    bench = Bench(rules, StandIn())

    async def run():
        with bench.workers.budget.enforced():
            assert (await bench.response())["allowed"]
            assert (await bench.response())["allowed"]

    asyncio.run(run())
    assert rules.begun == 1
    assert [code(outcome) for outcome in bench.outcomes] == ["injected", "injected"]
    assert bench.count("decided") == 2
    assert bench.placer.released == []


def test_a_patch_that_takes_too_long_is_made_by_a_worker_for_the_same_placement():
    bench = Bench(SlowHere(finishing=True))

    async def run():
        with bench.workers.budget.enforced():
            assert (await bench.response())["allowed"]

    asyncio.run(run())
    assert (bench.placer.asked, bench.placer.released) == (1, [])


def test_without_workers_it_is_denied_as_if_one_had_been_ended():
    bench = Bench(SlowHere(finishing=True))
    bench.reviewer._workers = None

    async def run():
        with bench.workers.budget.enforced():
            return await bench.response()

    assert asyncio.run(run())["allowed"] is False
    assert [code(outcome) for outcome in bench.outcomes] == ["too-costly"]
    assert bench.placer.released == ["a-reservation"]


def test_a_reservation_goes_with_a_review_whose_head_cannot_be_read(monkeypatch):
    bench = Bench(SlowHere(finishing=True))

    def fail(_body):
        raise UnreadableReviewError("nested too deep")

    monkeypatch.setattr(review, "decode_head", fail)

    async def run():
        with bench.workers.budget.enforced(), pytest.raises(UnreadableReviewError):
            await bench.response()

    asyncio.run(run())
    assert bench.placer.released == ["a-reservation"]


@pytest.mark.parametrize("method", [Reviewer.answer, Reviewer._finish])
def test_an_interrupt_that_comes_as_the_work_ends_ends_nothing_else(method):
    bench = Bench(Rules(), StandIn())
    lines, first = inspect.getsourcelines(method)
    end = first + next(at for at, line in enumerate(lines) if line.strip() == "budget.since = None")

    def interrupt(frame, event, _):
        if frame.f_code is not method.__code__:
            return None
        if event == "line" and frame.f_lineno == end:
            sys.settrace(None)
            frame.f_trace = None
            raise OverrunError
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        response = asyncio.run(bench.response())
    finally:
        sys.settrace(before)
    assert response["allowed"]
    assert bench.count("decided") == 1
    assert bench.workers.budget.since is None
