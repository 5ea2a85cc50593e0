"""Mode pooled where the agent tells what is held of each card: no pod is placed across cards."""

import pytest
from msgspec import structs

from kube.names import HOSTNAME_LABEL
from ledger.placement_request import MAX_HOSTS, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, request_of

POOLED = {"mode": "pooled", "writes_limits": False}


def pool(name: str, *held: int, **changes: object) -> NodeFact:
    """A node of a pool, and slices that containers hold of each card."""
    facts = {"gpus": (), "slices_per_gpu": 0, "pooled": 8 * len(held), "pooled_gpus": len(held)}
    cards = tuple(enumerate(held))
    node = gpu_node(name, **{**facts, "pool_cards": cards, "agent": "serving", **changes})
    return structs.replace(node, labels={**node.labels, HOSTNAME_LABEL: f"{name}.local"})


def pods(node: str, *slices: int) -> tuple:
    return tuple(holder(f"{node}-{at}", node, pooled=each) for at, each in enumerate(slices))


@pytest.mark.parametrize(
    "request_",
    [
        eighths(4, prefer=("mig", "pooled"), writes_limits=False),
        eighths(4, prefer=("pooled", "mig"), writes_limits=False),
        eighths(4, owner="train", same_model=True, **POOLED),
        request_of(Fraction.of_memory(40960, 8), **POOLED),
    ],
)
def test_a_denial_that_ends_with_other_pods_says_so_whatever_else_keeps_the_pod_off(request_):
    ledger = ledger_of(pool("across", 5, 6), holders=pods("across", 5, 6))
    ledger.set_pod(holder("before", "across", owner="train"))
    answer = ledger.place(request_, 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.is_for_now
    assert "no GPU has 4 free slices" in answer.why
    ledger.set_node(pool("across", 0, 6))
    ledger.remove_pod(("default", "across-0"))
    assert placed(ledger, request_).node == "across"


def test_a_pod_that_waits_stays_off_nodes_with_room_across_cards_as_their_agents_would_fail_it_at_once():
    nodes = pool("across", 5, 6), pool("full", 8, 8)
    ledger = ledger_of(*nodes, holders=(*pods("across", 5, 6), *pods("full", 8, 8)))
    answer = placed(ledger, eighths(4, **POOLED))
    assert (answer.node, answer.other_hosts) == (None, ("across.local",))


def test_what_was_placed_since_the_agent_looked_is_put_where_the_agent_puts_it():
    ledger = ledger_of(pool("a", 4, 3), holders=pods("a", 4, 3))
    assert placed(ledger, eighths(4, reservation="r-1", **POOLED)).node == "a"
    # On the card that had just four left: on the other there are five.
    assert placed(ledger, eighths(5, reservation="r-2", **POOLED)).node == "a"
    ledger = ledger_of(pool("a", 0, 0), holders=pods("a", 4, 4, 3))
    assert placed(ledger, eighths(5, **POOLED)).node == "a"


def test_after_a_pod_ended_nobody_tells_of_which_card_until_the_agent_looks_again():
    ledger = ledger_of(pool("a", 5, 6), holders=pods("a", 5))
    assert placed(ledger, eighths(4, **POOLED)).node == "a"


@pytest.mark.parametrize(
    "changes", [{"pool_cards": ()}, {"pool_cards": ((0, 4),), "pooled": 8, "pooled_gpus": 1}]
)
def test_a_pool_of_unknown_cards_and_one_of_a_single_card_count_together(changes):
    ledger = ledger_of(pool("a", 2, 2, **changes), holders=pods("a", 4))
    answer = placed(ledger, eighths(4, **POOLED))
    assert (answer.node, answer.other_hosts) == ("a", ())


def test_with_many_hosts_to_shut_out_the_pod_names_those_with_room():
    across = [pool(f"n-{number:02}", 5, 6) for number in range(MAX_HOSTS + 1)]
    held = [pod for node in across for pod in pods(node.name, 5, 6)]
    ledger = ledger_of(*across, pool("whole", 0, 8), holders=(*held, *pods("whole", 8)))
    answer = placed(ledger, eighths(4, **POOLED))
    assert (answer.node, answer.hosts, answer.other_hosts) == ("whole", ("whole.local",), ())


def test_a_pod_with_more_slices_than_any_card_has_took_them_from_the_freest_ones():
    ledger = ledger_of(pool("a", 0, 0), holders=pods("a", 10))
    assert placed(ledger, eighths(6, **POOLED)).node == "a"
    assert placed(ledger, eighths(7, **POOLED)).node is None
