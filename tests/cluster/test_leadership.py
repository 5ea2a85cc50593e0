"""Who leads, and until when: two candidates, one Lease, clocks in our hands."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.leadership import YIELD_SECONDS, Candidate, Leadership, LeaseTiming
from kube.names import ADDRESS_ANNOTATION
from tests.cluster.fake_api import FakeApi, talking_to
from tests.cluster.fake_lease import FakeLease

TIMING = LeaseTiming(duration=15, renew_deadline=10, retry=2)


class LeaseApi(FakeApi):
    def __init__(self):
        super().__init__()
        self.lease = FakeLease()

    async def _answer(self, head, reader, writer):
        self.script = [self._lease_answer]
        await super()._answer(head, reader, writer)

    async def _lease_answer(self, writer):
        method, _, _, body = self.asked[-1]
        await self.lease.answer(method, body)(writer)


@pytest.fixture
async def stand():
    """The Lease, the clock, and two candidates."""
    fake, clock = LeaseApi(), SimpleNamespace(now=100.0)
    async with talking_to(fake) as api:
        known = [Candidate("own", "controller", name, f"https://{name}:1") for name in "ab"]
        made = [Leadership(api, candidate, TIMING, lambda: clock.now) for candidate in known]
        yield fake.lease, clock, *made


async def test_the_first_to_come_makes_the_lease_and_leads(stand):
    lease, _, a, _ = stand
    await a._attempt()
    assert (a.leads, a.leader, a.transition, a.gained.is_set()) == (True, "https://a:1", 0, True)
    assert lease.stored["spec"]["holderIdentity"] == "a"
    assert lease.stored["metadata"]["annotations"] == {ADDRESS_ANNOTATION: "https://a:1"}


async def test_a_leader_stops_at_its_deadline_and_another_begins_only_after_the_lease_is_over(stand):
    lease, clock, a, b = stand
    await a._attempt()
    await b._attempt()
    assert (b.leads, b.leader) == (False, "https://a:1")
    clock.now += 10
    assert not a.leads
    clock.now += 4.9
    await b._attempt()
    assert not b.leads
    clock.now += 0.1
    await b._attempt()
    assert (b.leads, b.transition, lease.stored["spec"]["leaseTransitions"]) == (True, 1, 1)
    await a._attempt()
    assert (a.leads, a.leader) == (False, "https://b:1")


async def test_a_renewal_whose_answer_got_lost_costs_nothing(stand):
    lease, clock, a, _ = stand
    await a._attempt()
    lease.lose_answer = True
    await a._attempt()
    assert a.leads
    clock.now += 5
    await a._attempt()
    clock.now += 9
    assert (a.leads, a.transition) == (True, 0)


async def test_a_leader_that_finds_another_in_the_lease_stops_at_once(stand):
    lease, _, a, _ = stand
    await a._attempt()
    lease.stored["metadata"]["resourceVersion"] = "99"
    lease.stored["spec"]["holderIdentity"] = "someone"
    await a._attempt()
    assert not a.leads


async def test_a_term_is_raised_above_what_an_earlier_lease_had_come_to(stand):
    lease, _, a, _ = stand
    await a._attempt()
    await a.raise_transition(8)
    assert (a.transition, lease.stored["spec"]["leaseTransitions"]) == (8, 8)


async def test_a_standby_takes_over_at_the_moment_the_lease_is_over_and_looks_often_before(stand):
    lease, clock, a, b = stand
    await a._attempt()
    await b._attempt()
    assert 0.4 <= b._pause() <= 0.6
    clock.now += 14.9
    assert round(b._pause(), 6) == 0.1
    # What the holder says of itself holds, where its settings are others than ours.
    lease.stored["spec"]["leaseDurationSeconds"] = 20
    lease.stored["metadata"]["resourceVersion"] = "77"
    await b._attempt()
    clock.now += 19.9
    await b._attempt()
    assert not b.leads
    clock.now += 0.2
    await b._attempt()
    assert b.leads


async def test_a_leader_that_withdraws_hands_over_at_once_and_names_its_successor(stand):
    lease, _, a, b = stand
    await a._attempt()
    await b._attempt()
    await a.withdraw()
    assert (a.leads, a.leader, lease.stored["spec"]["holderIdentity"]) == (False, None, "")
    await a._attempt()
    assert not a.leads
    await b._attempt()
    await a._attempt()
    assert (b.leads, b.transition, a.leads, a.leader) == (True, 1, False, "https://b:1")


async def test_a_leader_that_has_a_reason_not_to_lead_for_a_minute_hands_over_to_another_without_one(stand):
    lease, clock, a, b = stand
    await a._attempt()
    await b._attempt()
    a._reason_not_to_lead = lambda: "watch of pods: no event for 120 s"
    for _ in range(int(YIELD_SECONDS / 6)):
        await a._attempt()
        assert a.leads
        clock.now += 6
    await a._attempt()
    await a._attempt()
    assert (a.leads, lease.stored["spec"]["holderIdentity"]) == (False, "")
    await b._attempt()
    assert (b.leads, b.transition) == (True, 1)


async def test_where_none_is_better_a_leader_with_a_reason_not_to_lead_leads_again_and_on(stand):
    _, clock, a, b = stand
    await a._attempt()
    a._reason_not_to_lead = b._reason_not_to_lead = lambda: "watch of pods: no event for 120 s"
    for _ in range(int(YIELD_SECONDS / 6) + 1):
        for candidate in (a, b):
            await candidate._attempt()
        clock.now += 6
    assert not a.leads
    clock.now += TIMING.duration
    for _ in range(3):
        await a._attempt()
        await b._attempt()
        assert (a.leads, a.transition, b.leads) == (True, 1, False)


async def test_a_standby_with_a_reason_not_to_lead_lets_others_go_first_and_leads_if_none_comes(stand):
    _, clock, a, b = stand
    await a._attempt()
    await b._attempt()
    b._reason_not_to_lead = lambda: "watch of nodes: no event for 120 s"
    clock.now += 29.9
    await b._attempt()
    assert not b.leads
    clock.now += 0.1
    await b._attempt()
    assert b.leads


async def test_a_renewal_under_way_does_not_take_back_what_is_given_up(stand):
    lease, _, a, _ = stand
    await a._attempt()
    await asyncio.gather(a._attempt(), a.withdraw(), a._attempt())
    assert (a.leads, lease.stored["spec"]["holderIdentity"]) == (False, "")


async def test_a_leader_that_was_cut_off_leads_again_at_once_if_nobody_took_over(stand):
    _, clock, a, _ = stand
    await a._attempt()
    clock.now += 10
    assert not a.leads
    await a._attempt()
    assert (a.leads, a.transition) == (True, 1)
