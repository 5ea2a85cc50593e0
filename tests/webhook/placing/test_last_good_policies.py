"""A webhook that starts on broken policies takes the controller's last good set, read by its own rules."""

import asyncio

import msgspec
import pytest

from certs.contexts import client_context
from ledger.messages import MAX_POLICIES_BYTES, PoliciesReply
from policies.loading.reload import LivePolicies
from tests.webhook.placing.stub_controller import Controller, files, listening
from webhook.placing.client import ControllerClient
from webhook.placing.last_good_policies import LastGoodPolicies

GOOD = {"default.yaml": b"kind: Policy\nname: default\nlimiter: none\n"}


@pytest.fixture
def live(tmp_path):
    (tmp_path / "default.yaml").write_text("kind: Policy\nname: default\nlimitr: none\n")
    return LivePolicies(tmp_path, may_wait=True)


async def failure_of(live, url, context):
    """Why two tries give nothing."""
    client = ControllerClient(url, lambda: context)
    older = LastGoodPolicies(client, live)
    for _ in range(2):
        await older.fetch()
    await client.close()
    return older.failure


def asked(live, status, body):
    """Ask a controller that answers every request for policies with the same bytes."""

    async def answer(_body):
        return status, body

    async def main():
        async with listening(Controller(answer, "GET /v1/policies")) as port:
            return await failure_of(live, f"https://localhost:{port}", client_context(files()))

    return asyncio.run(main())


def test_the_last_good_set_is_in_force_and_both_reasons_are_reported(live):
    failure = asked(live, 200, msgspec.json.encode(PoliciesReply("abc", GOOD)))
    assert live.current.resolve("n", None, None).limiter.name == "none"
    assert (live.last.adopted, failure, "limitr" in str(live.last.error)) == (True, None, True)


OVER = f"the reply to /v1/policies is over {MAX_POLICIES_BYTES} bytes"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b"no good policy set since this start\n", "NoAnswerError: the controller answered 404"),
        (200, b"{", "DecodeError: "),
        (200, b'{"digest": "a", "files": {}, "more": ' + b"[" * 100_000, "RecursionError: "),
        (200, msgspec.json.encode(PoliciesReply("a", {"x.yaml": b"kind: Nothing"})), "PolicyError: x.yaml:1"),
        (200, msgspec.json.encode(PoliciesReply("a", {})), "PolicyError: .: has no policy file"),
        (200, b" " * (MAX_POLICIES_BYTES + 1), OVER),
    ],
)
def test_what_is_no_good_set_changes_nothing_and_is_reported(live, status, body, why):
    assert why in asked(live, status, body)
    assert "limitr" in live.missing


@pytest.mark.parametrize(
    ("context", "why"),
    [
        (client_context(files()), "Connect call failed"),
        (None, "NoAnswerError: no client certificate has been read yet"),
    ],
)
def test_a_controller_that_cannot_be_asked_is_reported(live, context, why, monkeypatch):
    monkeypatch.setattr("webhook.placing.last_good_policies.TIMEOUT_SECONDS", 60)
    assert why in asyncio.run(failure_of(live, "https://localhost:1", context))
