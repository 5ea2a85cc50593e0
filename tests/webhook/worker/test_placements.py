"""The placement of a review that a worker decides: asked for, waited for, and given back."""

import asyncio
import os
import signal

import pytest

from ledger.placement_request import OverQuota, Quota, Unschedulable
from tests.webhook.support import as_body, pod, review_of
from tests.webhook.test_inline_budget import loop_for_ever
from tests.webhook.worker.running import PLACED, Asking, Bench, Placer, code, decide, no_child_is_left
from webhook import review
from webhook.admission.denial import Denial, Reason
from webhook.placing.placer import Unanswered
from webhook.worker import workers


@pytest.fixture(autouse=True)
def every_review_is_left_to_a_worker(monkeypatch):
    monkeypatch.setattr(review, "INLINE_BYTES", 0)


def test_a_worker_asks_for_a_placement_through_the_webhook():
    bench = Bench(Asking(lambda: "denied after all"))
    response, _ = decide(bench)
    assert response["status"]["message"] == "denied after all"
    assert (bench.placer.asked, bench.placer.released) == (1, ["a-reservation"])


QUOTA = Quota("namespace", "team", slices=8)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OverQuota(QUOTA, 8, 4, 8, "slices"), "over-quota"),
        (Unschedulable("no node has GPUs"), "no-matching-node"),
        (Unanswered(Reason.NO_CONTROLLER, "the controller is away"), "controller-away"),
    ],
)
def test_a_placement_that_is_refused_denies_the_pod(answer, reason):
    bench = Bench(Asking(loop_for_ever), Placer(answer))
    _, outcome = decide(bench)
    assert code(outcome) == reason
    assert outcome.policy is not None
    assert bench.placer.released == []


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (loop_for_ever, "too-costly"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "internal-error"),
        (lambda: {}["a key"], "internal-error"),
        (lambda: Denial.of(Reason.MEMORY, "too small"), "memory-too-small"),
    ],
)
def test_a_pod_that_is_denied_after_its_placement_gives_its_reservation_back(work, reason):
    bench = Bench(Asking(work))
    _, outcome = decide(bench)
    assert code(outcome) == reason
    assert bench.placer.released == ["a-reservation"]


class Later(Placer):
    """A placer whose answer comes when a test says so."""

    def place(self, request):
        super().place(request)
        self.coming = asyncio.get_running_loop().create_future()
        self.called.set()
        return self.coming

    async def begin(self, bench):
        """Have a review wait for its placement."""
        self.called = asyncio.Event()
        task = asyncio.ensure_future(bench.response())
        await self.called.wait()
        return task


def later(check):
    """Run `check(placer, bench, task)` for a review that waits for its placement."""
    placer = Later()
    bench = Bench(Asking(lambda: "denied after all"), placer)

    async def run():
        await check(placer, bench, await placer.begin(bench))

    with no_child_is_left():
        asyncio.run(run())
    return bench


def test_a_placement_that_comes_later_is_waited_for():
    async def check(placer, _bench, task):
        placer.coming.set_result(PLACED)
        assert (await task)["status"]["message"] == "denied after all"

    assert later(check).placer.released == ["a-reservation"]


def test_a_placement_that_is_cancelled_denies_the_pod_in_one_line():
    async def check(placer, _bench, task):
        placer.coming.cancel()
        assert "cancelled: try again" in (await task)["status"]["message"]

    bench = later(check)
    assert [code(outcome) for outcome in bench.outcomes] == ["internal-error"]


def test_a_placement_that_fails_denies_the_pod():
    async def check(placer, _bench, task):
        placer.coming.set_exception(ValueError("of the placer's own"))
        assert (await task)["allowed"] is False

    bench = later(check)
    assert [code(outcome) for outcome in bench.outcomes] == ["internal-error"]


def test_a_placement_for_a_review_that_nobody_waits_for_any_more_is_given_back():
    async def check(placer, bench, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        placer.coming.set_result(PLACED)
        await bench.workers.gone()

    assert later(check).placer.released == ["a-reservation"]


def test_a_review_that_gets_no_placement_in_time_is_denied(monkeypatch):
    monkeypatch.setattr(review, "DECIDE_SECONDS", 1.0)

    async def check(placer, _bench, task):
        assert "busy" in (await task)["status"]["message"]
        placer.coming.set_result(PLACED)
        await asyncio.sleep(0)

    bench = later(check)
    assert bench.placer.released == ["a-reservation"]
    assert bench.count("busy") == 1


def test_so_many_are_decided_at_once_and_more_than_may_wait_are_denied(monkeypatch):
    monkeypatch.setattr(workers, "MAX_WAITING", 1)
    placer = Later()
    bench = Bench(Asking(lambda: "denied after all"), placer)

    async def run():
        waiting = []
        for _ in range(workers.AT_ONCE):
            waiting.append(await placer.begin(bench))
            waiting[-1].placement = placer.coming
        later = asyncio.ensure_future(bench.reviewer.review(as_body(review_of(pod()))))
        await asyncio.sleep(0)
        assert "busy" in (await bench.response())["status"]["message"]
        later.cancel()
        for task in waiting:
            task.placement.set_result(PLACED)
            await task

    asyncio.run(run())
    assert bench.placer.asked == workers.AT_ONCE


def test_reviews_of_clients_that_left_wait_only_up_to_so_many_bytes(monkeypatch):
    """A review goes on when its connection is gone: a slow controller must not let them pile up."""
    monkeypatch.setattr(review, "INLINE_BYTES", 2**18)
    monkeypatch.setattr(review, "MAX_WAITING_BYTES", 1)
    placer = Later()
    bench = Bench(Asking(lambda: "denied after all"), placer)

    async def run():
        first = await placer.begin(bench)
        assert "busy" in (await bench.response())["status"]["message"]
        assert placer.asked == 1
        placer.coming.set_result(PLACED)
        await first
        third = await placer.begin(bench)
        placer.coming.set_result(PLACED)
        await third

    asyncio.run(run())
    assert [code(outcome) for outcome in bench.outcomes] == ["webhook-busy", *["label-not-allowed"] * 2]
