"""Telling the controller which policies are served: every few seconds, at the cost of nothing else."""

import asyncio
import contextlib
import json

import pytest

from certs.contexts import client_context
from tests.webhook.placing.stub_controller import files, listening
from tests.webhook.test_denial_reports import OK, Sleeping
from webhook.placing.client import ControllerClient
from webhook.policy_reports import OLDER_SECONDS, PERIOD_SECONDS, PolicyReports


class Listener:
    """A controller that answers each report with the same."""

    def __init__(self, answer):
        self.answer = answer
        self.reported = []

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.split("Content-Length: ")[1].split("\r\n")[0])
                self.reported.append((head.split(" HTTP")[0], json.loads(await reader.readexactly(length))))
                status, data = self.answer
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)


def reported(answer, digests):
    """The reports that the controller got, and the pauses, while these were in force one after the other."""

    async def main():
        controller, sleep, current = Listener(answer), Sleeping(), [digests[0]]
        async with listening(controller) as port:
            context = client_context(files())
            client = ControllerClient(f"https://localhost:{port}", lambda: context)
            reports = PolicyReports(client, "webhook-1", lambda: current[0], sleep)
            task = asyncio.ensure_future(reports.run())
            pauses = [await sleep.next()]
            for digest in digests[1:]:
                current[0] = digest
                sleep.end()
                pauses.append(await sleep.next())
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            client.drop()
        return controller.reported, pauses

    return asyncio.run(main())


def test_each_report_tells_what_is_served_now():
    reports, pauses = reported(OK, [None, "a.1", "a.1", "b.2"])
    assert reports == [
        ("POST /v1/served-policies", {"webhook": "webhook-1", "digest": digest})
        for digest in ("", "a.1", "a.1", "b.2")
    ]
    assert pauses == [PERIOD_SECONDS] * 4


@pytest.mark.parametrize("answer", [(503, b"no"), (400, b"no"), (409, b'{"leader": null}')])
def test_a_controller_that_does_not_take_it_gets_it_again(answer, capfd):
    reports, pauses = reported(answer, ["a.1", "b.2"])
    assert [report["digest"] for _, report in reports][-1] == "b.2"
    assert pauses == [PERIOD_SECONDS] * 2
    assert capfd.readouterr().err == ""


def test_a_controller_that_is_too_old_is_left_alone():
    _, pauses = reported((404, b"no"), ["a.1"])
    assert pauses == [OLDER_SECONDS]
