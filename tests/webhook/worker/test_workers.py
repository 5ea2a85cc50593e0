"""A review that a worker decides ends with one clear line, whatever becomes of worker and placement."""

import asyncio
import errno
import json
import os
import signal
from pathlib import Path

import pytest

from kube.names import MAX_LABEL_VALUE
from ledger.placement_request import Placement
from tests.webhook.support import FIXTURES, as_body, default_policies, pod, review_of
from tests.webhook.test_inline_budget import loop_for_ever, search_for_ever
from tests.webhook.worker.running import Bench, Deciding, code, decide
from webhook import review
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules
from webhook.worker import workers
from webhook.worker.limits import NICENESS

HERE = os.getpid()


@pytest.fixture(autouse=True)
def every_review_is_left_to_a_worker(monkeypatch):
    monkeypatch.setattr(review, "INLINE_BYTES", 0)


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
    assert "use fewer containers" in response["status"]["message"]
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
