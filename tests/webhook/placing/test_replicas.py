"""Replicas while the controller is away: spread, or of one model, by reports and by what was placed here."""

import msgspec

from kube.names import GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from ledger.messages import NodeState
from ledger.placement_request import Placement
from modes.facts import PodFact
from modes.fraction import Fraction
from tests.ledger.cluster import gpu_node, request_of
from tests.webhook.placing.test_fallback import report
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
    report(fallback, {state.fact.name: state for state in nodes})
    return fallback


def place(fallback, name, owner="train", fraction=EIGHTH, **changes):
    request = {"place": "spread", "owner": owner, "reservation": name, **changes}
    answer = fallback.place(request_of(fraction, **request))
    assert isinstance(answer, Placement)
    return answer


def places(fallback, count, **changes):
    found = [place(fallback, f"r{number}", **changes) for number in range(count)]
    return [(answer.node, answer.indices) for answer in found]


def test_replicas_that_the_controller_reported_are_kept_away_from():
    report = node("a", pod("x", "a"), pod("y", "a", 1)), node("b", pod("z", "b", 1))
    found = places(fallback_of(*report), 2)
    assert found == [("b", (0,)), ("a", (0,))]


def test_the_model_that_the_controller_reported_is_kept():
    report = node("h", pod("x", "h", 0, 8), product="H100", count=1), node("a", product="A100")
    answer = place(fallback_of(*report), "r0", place="pack", same_model=True)
    assert (answer.node, answer.model) == (None, "H100")
