"""A review that a worker decides ends with one clear line, whatever becomes of worker and placement."""

import asyncio
import errno
import inspect
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from kube.names import MAX_LABEL_VALUE
from ledger.placement_request import OverQuota, Placement, Quota, Unschedulable
from tests.webhook.support import FIXTURES, as_body, default_policies, pod, review_of
from tests.webhook.test_inline_budget import loop_for_ever, search_for_ever
from tests.webhook.worker.running import (
    PLACED,
    Asking,
    Bench,
    Deciding,
    Placer,
    decide,
    no_child_is_left,
)
from webhook import review
from webhook.admission.denial import Denial, Reason
from webhook.admission_review import UnreadableReviewError
from webhook.decision import Pending
from webhook.inline_budget import OverrunError
from webhook.patch_cache.cache import PatchCache
from webhook.placing.placer import Unanswered
from webhook.review import Reviewer
from webhook.rules import Rules
from webhook.worker import workers
from webhook.worker.limits import NICENESS

HERE = os.getpid()


@pytest.fixture(autouse=True)
def every_review_is_left_to_a_worker(monkeypatch):
    monkeypatch.setattr(review, "INLINE_BYTES", 0)


def code(outcome):
    return outcome.reason.value


class StandIn:
    """A placer that has room, and never knows of a reservation that it did not make."""

    def __init__(self):
        self.released = []

    def place(self, request):
        return Placement((3,), 81920, ("81920",), "node", request.accounting.reservation)

    def release(self, reservation):
        self.released.append(reservation)


@pytest.mark.parametrize("name", sorted(path.name for path in (FIXTURES / "admission-reviews").iterdir()))
def test_a_worker_decides_as_the_event_loop_does(name):
    body = (FIXTURES / "admission-reviews" / name).read_bytes()
    bench = Bench(PatchCache(Rules()), StandIn())
    inline, outcomes = StandIn(), []
    policies = default_policies()
    reviewer = Reviewer(
        lambda: policies, PatchCache(Rules()), inline, lambda _request, outcome, _: outcomes.append(outcome)
    )
    expected = reviewer.answer(body)
    found = asyncio.run(bench.response(body))
    assert found == json.loads(expected)["response"]
    (found,), (wanted,) = bench.outcomes, outcomes
    for field in ("reason", "patch", "denial", "policy", "error"):
        assert getattr(found, field) == getattr(wanted, field)
    assert (found.injection is None) == (wanted.injection is None)
    if found.injection is not None:
        for field in found.injection.__struct_fields__:
            assert getattr(found.injection, field) == getattr(wanted.injection, field)
    assert bench.placer.released == inline.released


def count_for_ever():
    """One call of a function in C, which looks for no signal."""
    sum(range(10**15))


@pytest.mark.parametrize("work", [loop_for_ever, search_for_ever, count_for_ever])
def test_a_rule_without_an_end_is_ended_by_the_kernel_in_python_and_in_c(work):
    bench = Bench(Deciding(work))
    response, outcome = decide(bench)
    assert (response["allowed"], code(outcome)) == (False, "too-costly")
    assert "make it smaller" in response["status"]["message"]
    assert bench.count("over-budget") == 1
    used = bench.registry.get_sample_value("fraction_injector_worker_cpu_seconds_total")
    assert used > 0.04


def test_a_rule_that_takes_too_much_memory_is_denied_likewise():
    _, outcome = decide(Bench(Deciding(lambda: len(bytearray(2**30)))))
    assert code(outcome) == "too-costly"


def test_a_rule_that_fails_is_an_internal_error_as_it_is_elsewhere():
    _, outcome = decide(Bench(Deciding(lambda: {}["a key"])))
    assert code(outcome) == "internal-error"
    assert outcome.error.startswith("KeyError at ")


def test_a_worker_that_others_kill_denies_its_pod_and_tells_the_admin():
    bench = Bench(Deciding(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    response, outcome = decide(bench)
    assert code(outcome) == "internal-error"
    assert "try again or tell your admin" in response["status"]["message"]
    assert outcome.error == "worker ended: SIGKILL"
    assert bench.count("failed") == 1


def test_where_no_process_can_be_had_the_pod_is_denied_and_the_next_one_gets_one(monkeypatch):
    def fork():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    bench = Bench(Deciding(lambda: "hello"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", fork)
        for _ in range(workers.AT_ONCE + 1):
            decide(bench)
            outcome = bench.outcomes.pop()
            assert code(outcome) == "webhook-busy"
            assert "Resource temporarily unavailable" in outcome.error
    response, _ = decide(bench)
    assert response["status"]["message"] == "hello"


def garbage(channel, **_):
    channel.sendall((3).to_bytes(4) + b"abc")


def endless(channel, **_):
    channel.sendall((2**31).to_bytes(4))


def nothing(channel, **_):
    del channel


@pytest.mark.parametrize("said", [garbage, endless, nothing])
def test_a_worker_that_makes_no_sense_denies_its_pod(monkeypatch, said):
    monkeypatch.setattr(workers, "decide", said)
    _, outcome = decide(Bench(Deciding(lambda: "hello")))
    assert code(outcome) == "internal-error"
    assert outcome.error.startswith(("worker ended: it sent", "worker ended: its message"))


def test_a_worker_has_no_descriptor_but_its_pipe_and_gives_way_to_the_loop():
    niceness = min(19, os.nice(0) + NICENESS)

    def tell():
        # The one by which they are listed is gone by then.
        descriptors = [path for path in list(Path("/proc/self/fd").iterdir()) if path.exists()]
        handled = {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        return (
            f"{len(descriptors)} {os.nice(0) == niceness} {handled == {signal.SIG_IGN}} {os.getpid() == HERE}"
        )

    response, _ = decide(Bench(Deciding(tell)))
    assert response["status"]["message"] == "1 True True False"


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


def no_fork():
    raise AssertionError("no worker is needed")


UNTOUCHED = {
    "no label": review_of(pod(fraction=None)),
    "a word that is no name": review_of(pod(fraction=None, labels={"note": "gpu-fraction"})),
    "no pod": review_of({"metadata": {}}, resource={"group": "apps", "version": "v1", "resource": "x"}),
    "a deletion": review_of(pod(), operation="DELETE"),
    "a subresource": review_of(pod(), subResource="status"),
    "labels that are none": review_of({"metadata": {"labels": [1]}}),
    "a namespace that is none": review_of(pod(fraction=None), namespace="x" * (MAX_LABEL_VALUE + 1)),
}


@pytest.mark.parametrize("found", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_none_of_ours_is_let_through_without_a_worker(monkeypatch, found):
    monkeypatch.setattr(os, "fork", no_fork)
    response, outcome = decide(Bench(Deciding(loop_for_ever)), as_body(found))
    assert response["allowed"]
    assert outcome.error is None


def test_an_update_that_nobody_could_decide_is_left_to_the_api_server(monkeypatch):
    monkeypatch.setattr(workers, "decide", lambda *_, **__: loop_for_ever())
    response, outcome = decide(Bench(Rules()), as_body(review_of(pod(), operation="UPDATE")))
    assert (response["allowed"], code(outcome)) == (True, "not-handled")


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


@pytest.fixture
def _inline(monkeypatch):
    monkeypatch.setattr(review, "INLINE_BYTES", 2**18)


@pytest.mark.usefixtures("_inline")
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


@pytest.mark.usefixtures("_inline")
def test_a_patch_that_takes_too_long_is_made_by_a_worker_for_the_same_placement():
    bench = Bench(SlowHere(finishing=True))

    async def run():
        with bench.workers.budget.enforced():
            assert (await bench.response())["allowed"]

    asyncio.run(run())
    assert (bench.placer.asked, bench.placer.released) == (1, [])


@pytest.mark.usefixtures("_inline")
def test_without_workers_it_is_denied_as_if_one_had_been_ended():
    bench = Bench(SlowHere(finishing=True))
    bench.reviewer._workers = None

    async def run():
        with bench.workers.budget.enforced():
            return await bench.response()

    assert asyncio.run(run())["allowed"] is False
    assert [code(outcome) for outcome in bench.outcomes] == ["too-costly"]
    assert bench.placer.released == ["a-reservation"]


@pytest.mark.usefixtures("_inline")
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
@pytest.mark.usefixtures("_inline")
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
