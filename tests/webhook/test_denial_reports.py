"""Telling the controller of denials: in sums, seldom, and never at the cost of anything else."""

import asyncio
import contextlib
import json
from types import SimpleNamespace

import pytest

from certs.contexts import client_context
from ledger.messages import MAX_DENIALS
from testbed.process import WAIT_S
from tests.webhook.placing.stub_controller import files, listening
from webhook.admission.denial import Denial, Reason
from webhook.decision import Outcome
from webhook.denial_reports import PERIOD_SECONDS, DenialReports
from webhook.placing.client import ControllerClient

OK = (200, b"{}")
SILENCE = (0, b"")


class Listener:
    """A controller that answers reports, one after the other, as the test says; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.paths = []
        self.reports = []

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.split("Content-Length: ")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                self.paths.append(head.split(" HTTP")[0])
                self.reports.append(json.loads(body)["denials"])
                status, data = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if status == 0:
                    await asyncio.Event().wait()
                if status is None:
                    break
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
        writer.transport.abort()


class Sleeping:
    """Pauses of the sender, each of which ends when the test says so."""

    def __init__(self):
        self.begun = asyncio.Queue()
        self.over = asyncio.Queue()

    async def __call__(self, seconds):
        await self.begun.put(seconds)
        await self.over.get()

    async def next(self):
        """How long the sender means to sleep, once it does."""
        return await asyncio.wait_for(self.begun.get(), WAIT_S)

    def end(self):
        """Let it go on."""
        self.over.put_nowait(None)


@contextlib.asynccontextmanager
async def reporting(port):
    context = client_context(files())
    client, sleep = ControllerClient(f"https://localhost:{port}", lambda: context), Sleeping()
    reports = DenialReports(client, sleep)
    task = asyncio.ensure_future(reports.run())
    try:
        yield reports, sleep
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.drop()


def deny(reports, reason=Reason.LABEL, namespace="team", message="why", *, dry_run=False):
    request = SimpleNamespace(namespace=namespace, dry_run=dry_run)
    reports(request, Outcome.of(Denial(reason, message), None), 0.0)


def entry(reason="label-not-allowed", namespace="team", pods=1, message="why"):
    return {"reason": reason, "namespace": namespace, "pods": pods, "message": message}


def test_denials_go_in_sums_and_what_comes_meanwhile_goes_with_the_next_report():
    async def main():
        controller = Listener(OK)
        async with listening(controller) as port, reporting(port) as (reports, sleep):
            deny(reports, message="first")
            deny(reports, message="last")
            deny(reports, Reason.MEMORY)
            deny(reports, Reason.OVER_QUOTA, dry_run=True)
            reports(SimpleNamespace(namespace="team", dry_run=False), Outcome(Reason.INJECTED), 0.0)
            assert await sleep.next() == PERIOD_SECONDS
            deny(reports, namespace="other")
            sleep.end()
            assert await sleep.next() == PERIOD_SECONDS
        assert set(controller.paths) == {"POST /v1/denials"}
        return controller.reports

    assert asyncio.run(main()) == [
        [entry(pods=2, message="last"), entry("memory-too-small")],
        [entry(namespace="other")],
    ]


@pytest.mark.parametrize(
    "answer", [(503, b"no"), (400, b"no"), (409, b'{"leader": null}'), (409, b"{"), (None, b"")]
)
def test_what_a_controller_does_not_take_is_forgotten_without_a_word(answer, capfd):
    async def main():
        controller = Listener(answer, answer, OK)
        async with listening(controller) as port, reporting(port) as (reports, sleep):
            deny(reports)
            assert await sleep.next() == PERIOD_SECONDS
            controller.answers, before = [OK], len(controller.reports)
            deny(reports, Reason.MEMORY)
            sleep.end()
            assert await sleep.next() == PERIOD_SECONDS
            return controller.reports[before:]

    assert asyncio.run(main()) == [[entry("memory-too-small")]]
    assert capfd.readouterr().err == ""


def test_a_controller_that_is_away_costs_nothing_but_the_report():
    async def main():
        async with listening(Listener(OK)) as port:
            pass
        async with reporting(port) as (reports, sleep):
            deny(reports)
            assert await sleep.next() == PERIOD_SECONDS
            return reports._counted

    assert asyncio.run(main()) == {}


def test_a_controller_that_never_answers_is_given_up_and_reported_to_the_next_time(monkeypatch):
    monkeypatch.setattr("webhook.denial_reports.TIMEOUT_SECONDS", 1.0)

    async def main():
        controller = Listener(SILENCE)
        async with listening(controller) as port, reporting(port) as (reports, sleep):
            deny(reports)
            assert await sleep.next() == PERIOD_SECONDS
            monkeypatch.setattr("webhook.denial_reports.TIMEOUT_SECONDS", 60.0)
            controller.answers = [OK]
            deny(reports, Reason.MEMORY)
            sleep.end()
            await sleep.next()
        return controller.reports[-1]

    assert asyncio.run(main()) == [entry("memory-too-small")]


def test_a_standby_names_the_leader_that_gets_the_reports():
    async def main():
        leader = Listener(OK)
        async with listening(leader) as port:
            standby = Listener((409, json.dumps({"leader": f"https://localhost:{port}"}).encode()))
            async with listening(standby) as first, reporting(first) as (reports, sleep):
                deny(reports)
                await sleep.next()
        return standby.reports, leader.reports

    assert asyncio.run(main()) == ([[entry()]], [[entry()]])


def test_of_more_than_fit_into_a_report_the_first_are_counted():
    reports = DenialReports(None)
    for number in range(MAX_DENIALS + 5):
        deny(reports, namespace=f"n{number}", message="x" * 300)
    deny(reports, namespace="n0")
    assert len(reports._counted) == MAX_DENIALS
    assert reports._counted["label-not-allowed", "n0"].pods == 2
    assert len(reports._counted["label-not-allowed", "n1"].message) == 200
