"""Telling the controller of denials: each object once, seldom, and never at the cost of anything else."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from certs.contexts import client_context
from ledger.messages import MAX_DENIALS
from testbed.process import WAIT_S
from tests.webhook.placing.stub_controller import Controller, files, listening
from webhook.admission.denial import Denial, Reason
from webhook.decision import Outcome
from webhook.denial_reports import PERIOD_SECONDS, DenialReports
from webhook.placing.client import ControllerClient


@contextlib.asynccontextmanager
async def reporting(*answers):
    """Denial reports to a controller that gives these answers, the last one always; and `next_report`.

    `next_report` waits until a report was sent, and lets the next one go.
    """
    left, slept, go = list(answers), asyncio.Queue(), asyncio.Queue()

    async def answer(_report):
        return left.pop(0) if len(left) > 1 else left[0]

    async def sleep(seconds):
        slept.put_nowait(seconds)
        await go.get()

    async def next_report():
        assert await asyncio.wait_for(slept.get(), WAIT_S) == PERIOD_SECONDS
        go.put_nowait(None)

    controller, context = Controller(answer, "POST /v1/denials"), client_context(files())
    async with listening(controller) as port:
        reports = DenialReports(ControllerClient(f"https://localhost:{port}", lambda: context), sleep)
        task = asyncio.ensure_future(reports.run())
        try:
            yield reports, controller, next_report
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def deny(reports, reason=Reason.LABEL, message="why", **request):
    fields = {"namespace": "team", "dry_run": False, "object_key": lambda: "x", **request}
    reports(SimpleNamespace(**fields), Outcome.of(Denial(reason, message), None), 0.0)


def entry(reason="label-not-allowed", **fields):
    return {"reason": reason, "namespace": "team", "message": "why", "object": "x", **fields}


def test_each_object_goes_once_and_what_comes_meanwhile_goes_with_the_next_report():
    async def main():
        async with reporting((200, {})) as (reports, controller, next_report):
            deny(reports, message="first")
            deny(reports, message="last")
            deny(reports, message="last", object_key=lambda: "y")
            deny(reports, Reason.MEMORY)
            deny(reports, Reason.OVER_QUOTA, dry_run=True)
            reports(SimpleNamespace(namespace="team", dry_run=False), Outcome(Reason.INJECTED), 0.0)
            await next_report()
            deny(reports, namespace="other")
            await next_report()
            return [batch["denials"] for batch in controller.batches]

    first = [entry(message="last"), entry(message="last", object="y"), entry("memory-too-small")]
    assert asyncio.run(main()) == [first, [entry(namespace="other")]]


@pytest.mark.parametrize("answer", [(503, b"no"), (409, {"leader": None}), (409, b"{")])
def test_what_a_controller_does_not_take_is_forgotten_without_a_word(answer, capfd):
    async def main():
        async with reporting(answer, (200, {})) as (reports, controller, next_report):
            deny(reports)
            await next_report()
            deny(reports, Reason.MEMORY)
            await next_report()
            return [batch["denials"] for batch in controller.batches]

    assert asyncio.run(main()) == [[entry()], [entry("memory-too-small")]]
    assert capfd.readouterr().err == ""


def test_of_more_than_fit_into_a_report_those_of_the_namespace_with_most_are_left_out():
    reports = DenialReports(None)
    deny(reports, namespace="other", message="x" * 300)
    for number in range(MAX_DENIALS + 5):
        deny(reports, object_key=f"{number}".__str__)
    other, *team = reports._window.take()
    assert (other.namespace, len(other.message), len(team)) == ("other", 200, MAX_DENIALS - 1)
