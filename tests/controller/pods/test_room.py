"""Nodes and cards for waiting pods, as the controller finds them."""

import asyncio

import pytest

from controller.pods.room import KEPT_SECONDS, RoomFinder, Walks
from controller.watch.ledger_store import LedgerStore
from kube.dra import DRIVER
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk
from ledger.why_claim import ShareClaim
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from tests.controller.cards import with_cards
from tests.controller.watch.test_ledger_store import Clock

CLAIM = ShareClaim(state="waiting", driver=DRIVER, asked=ClaimAsk(60000, card_mib=81920))
ANY = Constraints()


@pytest.fixture
def state():
    state = with_cards(LedgerStore(Clock()))
    asyncio.run(state.watched_offers.listed())
    asyncio.run(state.watched_claims.listed())
    return state


def find(state, demands=ANY, kinds=EVERY_KIND, finder=None):
    return asyncio.run((finder or RoomFinder(state)).cards(CLAIM, kinds, demands))


def test_nodes_that_take_no_pods_or_that_the_pod_excludes_are_left_out(state):
    elsewhere = find(state, Constraints(node_selector={"zone": "b"}))
    assert [each.reason for each in elsewhere.left_out] == [
        "excluded by the pod's nodeSelector, affinity or tolerations"
    ]
    with_cards(state, usable=False)
    assert [each.reason for each in find(state).left_out] == ["cordoned or not ready"]
    state.remove_node("cards")
    assert [each.reason for each in find(state).left_out] == ["deleted"]


def test_until_claims_are_listed_nothing_is_known():
    state = with_cards(LedgerStore(Clock()))
    asyncio.run(state.watched_offers.listed())
    assert find(state) is None


def test_pods_that_wait_for_the_same_share_a_walk(state):
    clock = Clock()
    finder = RoomFinder(state, clock)
    first = find(state, finder=finder)
    state.watched_claims.remove(("team", "train-claim"))
    assert find(state, finder=finder) is first
    assert find(state, kinds=GpuKinds(min_mib=1), finder=finder).has_room
    clock.now += KEPT_SECONDS
    assert find(state, finder=finder).has_room


async def test_of_very_many_kinds_of_pods_each_has_its_turn():
    now, found = [0.0], set()
    walks = Walks[str](lambda: now[0], 0.25)

    async def walk():
        return "nodes"

    for _ in range(400):
        for kind in range(100):
            if await walks.find(kind, walk) is not None:
                found.add(kind)
        now[0] += 0.25
    assert found == set(range(100))
