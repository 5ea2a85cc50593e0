"""Asking the controller for claims: a template may take some time, and a pod waits for it only so long."""

import asyncio

from kube.dra import DRIVER
from ledger.placement_request import Placement
from modes.fraction import Fraction
from tests.controller.claims.test_claim_templates import CLAIMED
from tests.ledger.cluster import changed, request_of
from tests.webhook.placing.stub_controller import placement
from tests.webhook.placing.test_controller import (
    HALF,
    asking,
    not_ready,
    of_each,
    patient,
    placed,
    run,
    together,
)
from webhook.admission.denial import Reason
from webhook.placing.placer import Unanswered

__all__ = ["patient"]

CLAIMED_HALF = changed(
    request_of(Fraction(4, 8), mode=CLAIMED, writes_limits=False, reservation="uid-1"), driver=DRIVER
)
NOT_STORED = {"pending": "the API server has not stored it yet"}
TOO_LATE = Unanswered(Reason.CLAIM_TEMPLATE, NOT_STORED["pending"])


def test_no_pod_waits_for_a_claim_whose_template_takes_long(monkeypatch):
    monkeypatch.setattr("webhook.placing.controller.PENDING_SECONDS", 0.0)

    async def main():
        is_stored = False

        async def answer(batch):
            slow = [not is_stored and bool(request["share"]["driver"]) for request in batch["asks"]]
            return 200, {"answers": [NOT_STORED if each else placement("gpu-0") for each in slow]}

        async with asking(answer) as (placer, _):
            claim = placer.place(CLAIMED_HALF)
            others = [await placed(placer, HALF) for _ in range(3)]
            assert not claim.done()
            is_stored = True
            return [each.node for each in (*others, await claim)]

    assert run(main) == ["gpu-0"] * 4


def test_a_claim_is_known_without_the_controller_only_once_its_template_was_made():
    dry_run = changed(request_of(Fraction(2, 8), mode=CLAIMED, writes_limits=False), driver=DRIVER)

    async def main():
        async with asking(of_each("gpu-0")) as (placer, controller):
            before = [await placed(placer, each) for each in (CLAIMED_HALF, dry_run)]
            controller.answer = not_ready
            return before, [await placed(placer, each) for each in (CLAIMED_HALF, dry_run)]

    before, (known, unknown) = run(main)
    assert all(isinstance(each, Placement) for each in before)
    assert (known.degraded, unknown.reason) == (True, Reason.NO_CONTROLLER)


def test_a_claim_that_waits_too_long_is_denied_with_what_it_waits_for(monkeypatch):
    monkeypatch.setattr("webhook.placing.controller.PENDING_SECONDS", 0.0)
    now = [100.0]

    async def never_stored(_batch):
        now[0] += 25.0
        return 200, {"answers": [NOT_STORED]}

    [found], controller = together(never_stored, CLAIMED_HALF, clock=lambda: now[0])
    assert (found, len(controller.batches)) == (TOO_LATE, 3)


def test_a_claim_whose_repeated_request_hangs_is_denied_while_the_api_server_still_waits(monkeypatch):
    for name, seconds in {"PENDING": 0.0, "LONGEST": 0.1, "LAST_ANSWER": 0.0}.items():
        monkeypatch.setattr(f"webhook.placing.controller.{name}_SECONDS", seconds)
    asked = []

    async def answer(batch):
        asked.append(batch)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return 200, {"answers": [NOT_STORED]}

    [found], _ = together(answer, CLAIMED_HALF)
    assert found == TOO_LATE
