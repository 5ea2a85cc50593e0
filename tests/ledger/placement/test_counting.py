"""What is free of each kind of unit, and which node is better for it."""

import pytest

from ledger.placement.counting import counting
from ledger.placement.expected_pods import ExpectedPods
from ledger.placement.shape_capacity import ShapeCapacity
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.mig import Mig
from modes.per_gpu import PerGpu
from modes.pooled import Pooled
from modes.registry import MODES
from modes.units import POOL, Profile
from tests.ledger.cluster import holder, ledger_of

HALF = Fraction(4, 8)
PRICES = ExpectedPods(8).prices
PROFILE = Profile(1, 10)
NODE = NodeFact(
    name="a", gpus=((0, 8), (1, 8)), pooled=16, instances=((PROFILE.number, 7),), cordoned=frozenset({1})
)


def test_every_mode_is_counted():
    assert [counting(mode) for mode in MODES.values()]


@pytest.mark.parametrize(
    ("mode", "unit", "free", "capacity"),
    [
        (PerGpu, POOL, (5,), {0: 8, 1: 0}),
        (Pooled, POOL, (14,), {POOL: 16}),
        (Mig, PROFILE, (6,), {PROFILE: 7}),
        (Mig, Profile(2, 20), (0,), {Profile(2, 20): 0}),
    ],
)
def test_each_unit_of_a_node_is_counted_for_itself(mode, unit, free, capacity):
    held = holder("p", "a", (0, 3), (PROFILE, 1), pooled=2)
    account = ledger_of(NODE, holders=(held,))._node_index.accounts["a"]
    assert counting(mode).free(account, unit) == free
    assert counting(mode).capacity(ShapeCapacity.of(NODE), unit) == capacity


def test_a_whole_gpu_has_room_only_when_it_is_idle():
    whole = Fraction(8, 8)
    assert counting(PerGpu).score((7, 7), whole, PRICES) is None
    assert counting(PerGpu).score((7, 8), whole, PRICES) is not None


@pytest.mark.parametrize("mode", [Pooled, Mig])
def test_of_pools_and_instances_the_node_with_fewer_free_is_better(mode):
    score = counting(mode).score
    assert score((3,), HALF, PRICES) is None
    assert score((4,), HALF, PRICES) > score((9,), HALF, PRICES)
