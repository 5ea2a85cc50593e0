"""Requests for claims: a slow one is asked again, and no other waits for it."""

import asyncio
import contextlib

from kube.dra import DRIVER
from ledger.messages import Answered, Answers
from ledger.placement_request import Placement
from modes.fraction import Fraction
from tests.controller.claims.test_claim_templates import CLAIMED
from tests.ledger.cluster import changed, request_of
from webhook.admission.denial import Reason
from webhook.placing import claims
from webhook.placing.claims import ClaimPlacer
from webhook.placing.placer import Unanswered

PLACED = Placement((), 0, (), cards=(81920,))
SLOW = Answered(pending="the API server has not stored it yet")


class Client:
    """A controller: has no answer to the requests named slow until `is_slow` is cleared."""

    def __init__(self):
        self.is_slow, self.batches = True, []

    async def claim(self, batch):
        await asyncio.sleep(0)
        self.batches.append(len(batch.asks))
        slow = [self.is_slow and b"slow" in bytes(ask) for ask in batch.asks]
        return Answers([SLOW if each else Answered(placement=PLACED) for each in slow])

    def drop(self):
        raise AssertionError("no answer of this controller is wrong")


@contextlib.asynccontextmanager
async def placing(client):
    placer = ClaimPlacer(client, asyncio.get_running_loop().time)
    sending = asyncio.ensure_future(placer.send_batches())
    try:
        yield placer
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def request(namespace):
    asked = request_of(Fraction(4, 8), mode=CLAIMED, writes_limits=False, namespace=namespace)
    return changed(asked, driver=DRIVER)


def test_no_request_waits_for_another_one_whose_template_takes_long(monkeypatch):
    monkeypatch.setattr(claims, "DEADLINE_SECONDS", 120.0)

    async def main():
        client = Client()
        async with placing(client) as placer:
            slow = placer.place(request("slow"))
            others = [placer.place(request(f"other-{number}")) for number in range(20)]
            assert await asyncio.gather(*others) == [PLACED] * 20
            assert await placer.place(request("later")) == PLACED
            assert not slow.done()
            client.is_slow = False
            assert await slow == PLACED
        assert client.batches[0] == 21

    asyncio.run(main())


def test_at_its_deadline_a_request_gets_the_reason_why_it_waited(monkeypatch):
    monkeypatch.setattr(claims, "DEADLINE_SECONDS", 0.2)

    async def main():
        async with placing(Client()) as placer:
            return await placer.place(request("slow"))

    assert asyncio.run(main()) == Unanswered(Reason.CLAIM_TEMPLATE, SLOW.pending)
