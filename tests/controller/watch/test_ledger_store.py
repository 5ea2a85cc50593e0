"""The single writer: what changes where, for everyone who must know."""

import asyncio

from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode, SeenPod
from ledger.claimed_cards import CardClaim
from ledger.from_kubernetes import node_from_object
from ledger.ledger_writer import COUNTED_AT_ONCE
from ledger.placement_request import Quota
from modes.claim_name import NamedShare
from modes.facts import PodFact
from modes.fraction import Fraction
from modes.resource_names import ResourceNames
from tests.cluster.objects import node
from tests.controller.cards import offer, part, with_cards
from tests.ledger.cluster import request_of

TEAM = Quota("namespace", "team", slices=8)
HALF = request_of(Fraction(4, 8), namespace="team", reservation="r")
HALF_MORE = request_of(Fraction(4, 8), namespace="team")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def ready_state(*names):
    clock = Clock()
    state = LedgerStore(clock)
    for name in names:
        state.set_node(seen_node(name))
    state.listed("nodes")
    state.listed("pods")
    return state, clock


async def pages(*some):
    """Pages of a list, as a watch gives them."""
    for page in some:
        yield page


def seen_node(name, gpus=1):
    return SeenNode(node_from_object(node(name, gpus=gpus), ResourceNames()), f"uid-{name}")


def seen_pod(name, **fact):
    return SeenPod(PodFact(**{"namespace": "team", "name": name, "takes": ((0, 4),), **fact}), None)


def test_the_ledger_is_whole_once_nodes_and_pods_are_listed():
    state = LedgerStore(Clock())
    assert (state.missing, state.synced.is_set()) == ("nodes and pods not listed yet", False)
    asyncio.run(state.watched_nodes.replace(pages([])))
    assert state.missing == "pods not listed yet"
    asyncio.run(state.watched_pods.replace(pages([])))
    assert (state.missing, state.synced.is_set()) == (None, True)


def test_a_reader_begins_with_all_nodes_and_then_sees_what_changes():
    state, _ = ready_state("a", "b")
    changes = state.subscribe()
    assert (changes.take(), changes.backlog) == (["a", "b"], True)
    state.set_pod(seen_pod("x", node="b"))
    assert changes.take() == ["b"]
    state.set_pod(seen_pod("x", node="b"))
    assert changes.take() == []
    state.remove_pod(("team", "x"))
    state.set_node(seen_node("a", gpus=2))
    assert changes.take() == ["b", "a"]
    state.unsubscribe(changes)
    state.remove_node("a")
    assert changes.take() == []


def test_a_reservation_changes_its_node_when_it_is_made_and_when_it_takes_no_room_any_more():
    state, clock = ready_state("a")
    changes = state.subscribe()
    changes.take()
    assert state.place(HALF).node == "a"
    assert (changes.take(), state.ledger.reservations) == (["a"], 1)
    for now, changed, reservations, used in ((4.9, [], 1, 4), (5.0, ["a"], 0, 0)):
        clock.now = now
        state.expire()
        assert (changes.take(), state.ledger.reservations) == (changed, reservations)
        assert state.node_state("a").view.gpus[0].used == used


def test_a_reservation_does_not_end_while_its_pod_may_have_come_unheard_of():
    clock, wall = Clock(), Clock()
    state = LedgerStore(clock, wall)
    state.set_node(seen_node("a"))
    state.place(HALF)
    clock.now = 600.0
    wall.now = 4.9
    state.expire()
    assert state.place(request_of(Fraction(4, 8), namespace="team", reservation="s")).node == "a"
    assert state.place(HALF_MORE).node is None
    state.expire()
    assert state.ledger.reservations == 2
    wall.now = 525.0
    state.expire()
    assert state.ledger.reservations == 1


def test_a_node_state_tells_what_room_is_left():
    state, _ = ready_state("a")
    state.set_pod(seen_pod("x", node="a", cpu_milli=1000, memory_bytes=1024))
    found = state.node_state("a")
    assert (found.cpu_free, found.memory_free) == (63_000, 256 * 1024**3 - 1024)
    assert state.node_state("missing") is None


def test_claims_change_only_the_nodes_whose_cards_they_hold():
    state, _ = ready_state("a")
    with_cards(state)
    changes = state.subscribe()
    assert set(changes.take()) == {"a", "cards"}
    of_slices = state.subscribe()
    of_slices.follows_cards = False
    of_slices.take()
    state.watched_claims.set(CardClaim("team", "more", "pod", (part("gpu-0", 5),)))
    assert (changes.take(), of_slices.take()) == (["cards"], [])
    state.watched_claims.set(CardClaim("team", "more", "pod", (part("gpu-0", 5),)))
    state.watched_claims.set(CardClaim("team", "unallocated", "pod"))
    state.watched_claims.remove(("team", "unknown"))
    assert changes.take() == []
    state.watched_claims.remove(("team", "more"))
    assert changes.take() == ["cards"]
    state.watched_offers.remove(("", "cards-slice"))
    assert changes.take() == ["cards"]
    assert state.ledger.node("cards") is None


def test_a_node_of_both_kinds_shows_both_and_webhooks_get_only_its_slices():
    state, _ = ready_state("a")
    state.watched_offers.set(offer("a"))
    view = state.ledger.node("a")
    assert (len(view.gpus), len(view.cards)) == (1, 2)
    assert state.node_state("a").view.cards == ()
    assert state.node_state("a").view.gpus == view.gpus


def test_once_cards_are_listed_all_claims_of_earlier_pods_count_by_them():
    state, _ = ready_state()
    pods = 2 * COUNTED_AT_ONCE
    for number in range(pods):
        state.set_pod(seen_pod(str(number), takes=(), claimed=(NamedShare(mib=20480),)))
    assert state.ledger.used_of(TEAM).slices == 8 * pods
    asyncio.run(state.watched_offers.replace(pages([offer("node")])))
    assert state.offers_listed.is_set()
    assert state.ledger.used_of(TEAM).slices == 2 * pods


def test_a_card_of_another_size_is_counted_with_the_next_reservations_that_expire():
    state, _ = ready_state()
    state.set_pod(seen_pod("p", takes=(), claimed=(NamedShare(mib=20480),)))
    state.watched_offers.set(offer("node"))
    assert not state.expire()
    assert state.ledger.used_of(TEAM).slices == 2
