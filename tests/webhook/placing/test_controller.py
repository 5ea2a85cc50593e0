"""Asking the controller: batches, deadlines, leaders that move, and answers that are none."""

import asyncio
import contextlib
import json

import pytest
from prometheus_client import CollectorRegistry

from certs.contexts import client_context
from controller.placement_api import MAX_BODY
from kube.names import MAX_NAME
from kube.scheduling import Constraints
from ledger.messages import MAX_ASKS, MAX_ASKS_BYTES, MAX_RELEASES, MAX_REQUEST_BYTES, write_request
from ledger.placement_request import Assumption, Placement
from modes.fraction import Fraction
from tests.ledger.cluster import changed, request_of
from tests.product import ROOT
from tests.webhook.placing.stub_controller import Controller, files, listening, placement
from webhook.admission.denial import Reason
from webhook.placing.client import ControllerClient
from webhook.placing.controller import (
    LAST_ANSWER_SECONDS,
    LONGEST_SECONDS,
    PENDING_SECONDS,
    SILENT_SECONDS,
    ControllerPlacer,
)
from webhook.placing.fallback import Fallback
from webhook.placing.placer import Unanswered

HALF = request_of(Fraction(4, 8), reservation="uid-1", assume=Assumption(1, 81920))


@contextlib.asynccontextmanager
async def placing(port, clock=None):
    context = client_context(files())
    client = ControllerClient(f"https://localhost:{port}", lambda: context)
    loop = asyncio.get_running_loop()
    placer = ControllerPlacer(client, CollectorRegistry(), clock or loop.time)
    tasks = [asyncio.ensure_future(work()) for work in placer.background().values()]
    try:
        yield placer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client.drop()


@contextlib.asynccontextmanager
async def asking(answer, *clock):
    controller = Controller(answer)
    async with listening(controller) as port, placing(port, *clock) as placer:
        yield placer, controller


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nobody is given up for silence here but who asks for it: the machine may be busy."""
    for name in ("SILENT", "LONGEST", "AWAY"):
        monkeypatch.setattr(f"webhook.placing.controller.{name}_SECONDS", 60.0)


def of_each(node):
    async def answer(batch):
        return 200, {"answers": [placement(node, ask["accounting"]["reservation"]) for ask in batch["asks"]]}

    return answer


async def placed(placer, request):
    answer = placer.place(request)
    return await answer if isinstance(answer, asyncio.Future) else answer


def run(main):
    return asyncio.run(main())


def together(answer, *requests, clock=None):
    """The results of requests that come together, each an answer or an exception; and the controller."""

    async def main():
        async with asking(answer, clock) as (placer, controller):
            asks = [placed(placer, each) for each in requests]
            return await asyncio.gather(*asks, return_exceptions=True), controller

    return run(main)


def test_asks_that_come_together_go_in_one_batch_over_one_connection():
    asks = [request_of(Fraction(1, 8), reservation=f"uid-{number}") for number in range(20)]
    answers, controller = together(of_each("gpu-0"), *asks)
    assert [answer.reservation for answer in answers] == [f"uid-{number}" for number in range(20)]
    assert not any(answer.degraded for answer in answers)
    assert [len(batch["asks"]) for batch in controller.batches] == [20]
    # The snapshot's connections are ended by this controller.
    assert controller.connections <= 3


@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_connection_that_was_closed_while_idle_is_made_again_without_a_trace(end):
    async def main():
        async with asking(of_each("gpu-0")) as (placer, controller):
            await placed(placer, HALF)
            for writer in controller.writers:
                getattr(writer.transport, end)()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            answer = await placed(placer, HALF)
        assert (answer.node, answer.degraded, len(controller.batches)) == ("gpu-0", False, 2)

    run(main)


def test_a_standby_sends_us_to_the_leader_and_we_stay_there():
    async def main():
        leader = Controller(of_each("gpu-7"))
        async with listening(leader) as leading:

            async def elsewhere(_batch):
                return 409, {"leader": f"https://127.0.0.1:{leading}"}

            standby = Controller(elsewhere)
            async with listening(standby) as port, placing(port) as placer:
                first, second = await placed(placer, HALF), await placed(placer, HALF)
        assert (first.node, second.node, first.degraded) == ("gpu-7", "gpu-7", False)
        return len(standby.batches), len(leader.batches)

    assert run(main) == (1, 2)


async def silence(_batch):
    await asyncio.Event().wait()


def always(status, content):
    async def answer(_batch):
        return status, content

    return answer


nonsense, not_ready = always(200, b"<html>"), always(503, b"nodes not listed yet")
too_few, no_leader = always(200, {"answers": []}), always(409, {"leader": None})


@pytest.mark.parametrize("answer", [silence, nonsense, too_few, no_leader, not_ready])
def test_what_is_no_answer_is_placed_without_the_controller(answer, monkeypatch):
    monkeypatch.setattr("webhook.placing.controller.SILENT_SECONDS", 0.2)
    [found], _ = together(answer, HALF)
    assert isinstance(found, Placement)
    assert (found.degraded, found.indices) == (True, (0,))


def test_a_fault_of_our_own_leaves_no_pod_without_an_answer_and_ends_with_it(monkeypatch):
    monkeypatch.setattr("webhook.placing.controller.AWAY_SECONDS", 0.0)

    async def main():
        async with asking(of_each("gpu-0")) as (placer, _):
            with monkeypatch.context() as broken:
                broken.delattr("webhook.placing.controller._placed")
                during = await placed(placer, HALF)
            again = asyncio.ensure_future(placer.background()["placement batches"]())
            while placer.state != "the controller has not sent its nodes yet":
                assert not again.done()
                await asyncio.sleep(0)
            after = await placed(placer, HALF)
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)
        return during.degraded, after.degraded

    assert run(main) == (True, False)


def test_a_pod_that_breaks_the_fallback_fails_alone(monkeypatch):
    def breaks_on_one(fallback, request):
        if request.accounting.namespace == "odd":
            raise KeyError(request.accounting.namespace)
        return place(fallback, request)

    place = Fallback.place
    monkeypatch.setattr(Fallback, "place", breaks_on_one)
    [odd, other], _ = together(nonsense, changed(HALF, namespace="odd"), HALF)
    assert (type(odd), type(other)) == (KeyError, Placement)


def test_no_pod_waits_for_a_controller_that_did_not_answer_until_it_answers_again(monkeypatch):
    async def main():
        asked_again, answers_again = asyncio.Event(), asyncio.Event()

        async def back(batch):
            if len(controller.batches) == 1:
                return await nonsense(batch)
            asked_again.set()
            await answers_again.wait()
            return await of_each("gpu-0")(batch)

        async with asking(back) as (placer, controller):
            monkeypatch.setattr("webhook.placing.controller.AWAY_SECONDS", 0.0)
            placer.release("uid-0")
            answers = [await placed(placer, HALF)]
            assert placer.state == "the controller does not answer: placing by the policies' assumptions"
            await asked_again.wait()
            # It is asked in the background, and no pod waits for its answer.
            answers += [placer.place(HALF), placer.place(HALF)]
            answers_again.set()
            while placer.state != "the controller has not sent its nodes yet":  # noqa: ASYNC110 no event
                await asyncio.sleep(0)
            answers.append(await placed(placer, HALF))
        # What the lost batch may have reserved is given back, and what it should have given back.
        first, probe = controller.batches[:2]
        assert (first["releases"], probe["asks"]) == (["uid-0"], [])
        assert probe["releases"] == ["uid-0", "uid-1"]
        return [answer.degraded for answer in answers]

    assert run(main) == [True, True, True, False]


def large_ask(number, size):
    constraints = Constraints({f"key-{number}": "v" * size})
    return request_of(Fraction(1, 8), reservation=f"uid-{number}", constraints=constraints)


def test_asks_go_in_as_many_batches_as_their_bytes_need(monkeypatch):
    asks = [large_ask(number, 700) for number in range(9)]
    most = 5 * len(write_request(asks[0]))
    monkeypatch.setattr("webhook.placing.controller.MAX_ASKS_BYTES", most)
    answers, controller = together(of_each("gpu-0"), *asks)
    assert [answer.reservation for answer in answers] == [f"uid-{number}" for number in range(9)]
    sizes = [len(json.dumps(batch)) for batch in controller.batches]
    assert len(sizes) == 2
    # Spaces, and what a batch has around its asks.
    assert max(sizes) < most * 5 // 4


def test_a_batch_of_the_largest_asks_is_no_larger_than_the_controller_reads():
    """Else a pod with long demands would send all pods of its batch past the controller."""
    releases = MAX_RELEASES * (MAX_NAME + len('"",'))
    assert MAX_REQUEST_BYTES < MAX_ASKS_BYTES
    assert MAX_ASKS_BYTES + releases + MAX_ASKS < MAX_BODY


def test_an_ask_that_is_too_large_fails_alone():
    [first, large, last], _ = together(of_each("gpu-0"), HALF, large_ask(1, MAX_REQUEST_BYTES), HALF)
    assert (first.node, large.reason, last.node) == ("gpu-0", Reason.MANY_DEMANDS, "gpu-0")
    assert len(large.why) <= 200


@pytest.mark.parametrize("bad", [{"refused": "9 slices"}, {}])
def test_an_answer_that_is_none_fails_alone(bad):
    good = placement("gpu-0")
    [first, refused, last], _ = together(always(200, {"answers": [good, bad, good]}), HALF, HALF, HALF)
    assert [first.degraded, type(refused), last.degraded] == [False, Unanswered, False]


def test_a_pod_waits_less_than_any_api_server_of_the_chart_does():
    schema = json.loads((ROOT / "charts/fraction-injector/values.schema.json").read_text())
    waits = schema["properties"]["webhook"]["properties"]["timeoutSeconds"]["minimum"]
    assert max(LONGEST_SECONDS + max(PENDING_SECONDS, LAST_ANSWER_SECONDS), 2 * SILENT_SECONDS) < waits


def test_a_process_that_stops_places_what_waits_for_a_slow_controller():
    async def main():
        controller = Controller(silence)
        async with listening(controller) as port:
            async with placing(port) as placer:
                sent = placer.place(HALF)
                while not controller.batches:  # noqa: ASYNC110 no event
                    await asyncio.sleep(0)
                waits = placer.place(HALF)
            # It still answers what arrives while it drains.
            return [sent.result().degraded, waits.result().degraded, (await placed(placer, HALF)).degraded]

    assert run(main) == [True, True, True]


def test_any_server_that_answers_must_be_the_service_whatever_address_it_has():
    async def main():
        other = Controller(of_each("gpu-0"))
        async with listening(other, files(names=("other.example",))) as port, placing(port) as placer:
            return (await placed(placer, HALF)).degraded, other.batches

    assert run(main) == (True, [])


@pytest.mark.parametrize(
    "url",
    [
        *("http://localhost:9443", "localhost:9443", "https://localhost/path", "https://"),
        *("https://localhost:99999", "https://localhost:x", "https://localhost:9443?a", "https://[::1"),
    ],
)
def test_an_address_that_is_none_is_refused_at_start(url):
    with pytest.raises(ValueError, match="is not an address of a controller: write https://HOST:PORT"):
        ControllerClient(url, lambda: None)
