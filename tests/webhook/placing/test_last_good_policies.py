"""A webhook that starts on broken policies takes the controller's last good set, read by its own rules."""

import asyncio
import contextlib

import msgspec
import pytest

from certs.contexts import client_context
from ledger.messages import MAX_POLICIES_BYTES, PoliciesReply
from policies.loading.reload import LivePolicies
from tests.webhook.placing.stub_controller import files, listening
from webhook.placing.client import ControllerClient
from webhook.placing.last_good_policies import LastGoodPolicies

GOOD = {"default.yaml": b"kind: Policy\nname: default\nlimiter: none\n"}


class Giver:
    """A controller that answers every request for policies with the same bytes."""

    def __init__(self, status, body):
        self.status = status
        self.body = body
        self.asked = []

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.split(" HTTP")[0])
        head = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (
            self.status,
            len(self.body),
        )
        with contextlib.suppress(ConnectionError):
            writer.write(head + self.body)
            await writer.drain()


def asked(giver, tmp_path, times=1):
    """What a webhook on broken policies has after it asked."""
    (tmp_path / "default.yaml").write_text("kind: Policy\nname: default\nlimitr: none\n")

    async def main():
        live = LivePolicies(tmp_path, may_wait=True)
        async with listening(giver) as port:
            context = client_context(files())
            client = ControllerClient(f"https://localhost:{port}", lambda: context)
            older = LastGoodPolicies(client, live)
            for _ in range(times):
                await older.fetch()
            await client.close()
        return live, older.failure

    return asyncio.run(main())


def test_the_last_good_set_is_in_force_and_both_reasons_are_reported(tmp_path):
    giver = Giver(200, msgspec.json.encode(PoliciesReply("abc", GOOD)))
    live, failure = asked(giver, tmp_path)
    assert giver.asked == ["GET /v1/policies"]
    assert live.current.resolve("n", None, None).limiter.name == "none"
    assert (live.last.adopted, failure, "limitr" in str(live.last.error)) == (True, None, True)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (
            404,
            b"no good policy set since this replica started\n",
            "NoAnswerError: the controller answered 404",
        ),
        (200, b"{", "DecodeError: "),
        (200, b'{"digest": "a", "files": {}, "more": ' + b"[" * 100_000, "RecursionError: "),
        (200, msgspec.json.encode(PoliciesReply("a", {"x.yaml": b"kind: Nothing"})), "PolicyError: x.yaml:1"),
        (200, msgspec.json.encode(PoliciesReply("a", {})), "PolicyError: .: has no policy file"),
        (
            200,
            b" " * (MAX_POLICIES_BYTES + 1),
            f"the reply to /v1/policies is over {MAX_POLICIES_BYTES} bytes",
        ),
    ],
)
def test_what_is_no_good_set_changes_nothing_and_is_reported(tmp_path, status, body, why):
    live, failure = asked(Giver(status, body), tmp_path, times=2)
    assert why in failure
    assert "limitr" in live.missing


def failure_of(tmp_path, url, context):
    """Why one try gives nothing."""
    (tmp_path / "default.yaml").write_text("kind: Nothing\n")
    client = ControllerClient(url, lambda: context)
    older = LastGoodPolicies(client, LivePolicies(tmp_path, may_wait=True))

    async def main():
        await older.fetch()
        await client.close()

    asyncio.run(main())
    return older.failure


def test_a_controller_that_is_away_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("webhook.placing.last_good_policies.TIMEOUT_SECONDS", 60)
    failure = failure_of(tmp_path, "https://localhost:1", client_context(files()))
    assert "Connect call failed" in failure


def test_without_a_certificate_nobody_is_asked(tmp_path):
    failure = failure_of(tmp_path, "https://localhost:1", None)
    assert failure == "NoAnswerError: no client certificate has been read yet"
