"""Replicas while the controller is away: spread, or of one model, by reports and by what was placed here."""

import asyncio

import msgspec

from kube.names import GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from ledger.messages import NodeState, StreamEvent
from ledger.owners import Replicas
from ledger.placement_request import Placement
from modes.facts import PodFact
from modes.fraction import Fraction
from tests.ledger.cluster import gpu_node, request_of
from webhook.placing import fallback as module
from webhook.placing.fallback import Fallback

EIGHTH = Fraction(1, 8)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def node(name, *pods, product=None, asked=("train",), **changes):
    """A node as a controller streams it that was asked about some owners."""
    fact = gpu_node(name, **changes)
    if product is not None:
        fact = msgspec.structs.replace(fact, labels=fact.labels | {GPU_PRODUCT_LABEL: product})
    ledger = Ledger()
    ledger.replace([fact], pods)
    for owner in asked:
        ledger._owners.follow(owner)
    return NodeState(fact, ledger.node(name), *ledger.room(name), ledger.replicas(name))


def pod(name, on, index=0, slices=1, owner="train"):
    return PodFact(namespace="team", name=name, node=on, takes=((index, slices),), owner=owner)


def fallback_of(*nodes, clock=None):
    fallback = Fallback(clock or Clock())
    asyncio.run(fallback.replace({state.fact.name: state for state in nodes}, []))
    return fallback


def place(fallback, name, owner="train", fraction=EIGHTH, **changes):
    request = {"place": "spread", "owner": owner, "reservation": name, **changes}
    answer = fallback.place(request_of(fraction, **request))
    assert isinstance(answer, Placement)
    return answer


def places(fallback, count, **changes):
    found = [place(fallback, f"r{number}", **changes) for number in range(count)]
    return [(answer.node, answer.indices) for answer in found]


def test_what_is_placed_here_is_spread_over_nodes_then_gpus():
    found = places(fallback_of(node("a"), node("b")), 6)
    assert sorted(found[:2]) == [("a", (0,)), ("b", (0,))]
    assert sorted(found[2:4]) == [("a", (1,)), ("b", (1,))]
    assert sorted(found[4:]) == [("a", (0,)), ("b", (0,))]


def test_replicas_that_the_controller_reported_are_kept_away_from():
    report = node("a", pod("x", "a"), pod("y", "a", 1)), node("b", pod("z", "b", 1))
    found = places(fallback_of(*report), 2)
    assert found == [("b", (0,)), ("a", (0,))]


def test_what_shows_up_is_not_counted_twice():
    fallback = fallback_of(node("a"), node("b"))
    first = place(fallback, "r0")
    fallback.set_node(node(first.node, pod("x", first.node)))
    assert dict(fallback._ledger._owners.on_nodes("train")) == {first.node: 1}


def test_what_is_given_back_or_forgotten_counts_no_more():
    clock = Clock()
    fallback = fallback_of(node("a"), node("b"), clock=clock)
    first = place(fallback, "r0")
    place(fallback, "r1")
    fallback.release("r0")
    assert first.node not in fallback._ledger._owners.on_nodes("train")
    clock.now = 60.0
    fallback.mark_live()
    assert not fallback._ledger._owners.on_nodes("train")


def test_a_node_that_is_gone_has_no_replicas():
    fallback = fallback_of(node("a", pod("x", "a")), node("b"))
    fallback.remove_node("a")
    assert not fallback._ledger._owners.on_nodes("train")


def test_replicas_take_nothing_of_a_node():
    fallback = fallback_of(node("a", pod("x", "a", 0, 3)))
    place(fallback, "r0")
    assert fallback.used() == 4


def test_the_model_that_the_controller_reported_is_kept():
    report = node("h", pod("x", "h", 0, 8), product="H100", count=1), node("a", product="A100")
    answer = place(fallback_of(*report), "r0", place="pack", same_model=True)
    assert (answer.node, answer.model) == (None, "H100")


def test_what_is_kept_of_owners_is_bounded_on_each_node(monkeypatch):
    monkeypatch.setattr(module, "MAX_OWNERS", 5)
    owners = [f"p{number}" for number in range(9)]
    fallback = fallback_of(node("n0", *(pod(owner, "n0", owner=owner) for owner in owners), asked=owners))
    assert len(fallback._ledger._owners._on_nodes) == 5
    fallback.set_node(node("n0"))
    assert not fallback._ledger._owners._on_nodes


def test_the_stream_tells_owners_that_were_asked_about_and_no_others():
    state = node("a", pod("x", "a"), pod("y", "a", 1), pod("z", "a", owner="other"))
    assert state.replicas == (Replicas("train", (0, 1)),)
    event = msgspec.json.decode(msgspec.json.encode(StreamEvent(node=state)), type=StreamEvent)
    assert event.node == state
    assert b"replicas" not in msgspec.json.encode(StreamEvent(node=node("a", pod("x", "a"), asked=())))


def test_an_owner_that_is_asked_about_first_has_its_nodes_sent_again():
    sent = []
    ledger = Ledger(on_promise=sent.append)
    ledger.replace([gpu_node("a"), gpu_node("b")], [pod("x", "a")])
    ledger.place(request_of(EIGHTH, owner="train", place="spread"), 0.0)
    ledger.place(request_of(EIGHTH, owner="train", place="spread"), 0.0)
    assert sent == ["a"]
