"""Which cards a claim may take: those that drivers offer, or that the policy assumes."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from ledger.ledger import Ledger
from ledger.placement_request import (
    Assumption,
    Demands,
    Placement,
    PlacementRequest,
    RequestedShare,
    Unschedulable,
)
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from modes.registry import MODES

HALF = Fraction(4, 8)
MEMORY = Fraction.of_memory(100, 8)
[CLAIMED] = [name for name, mode in MODES.items() if mode.is_claimed]


def offer(driver, cards, model=""):
    sizes = [mib for mib, number in cards.items() for _ in range(number)]
    made = tuple(ClaimableCard(f"gpu-{i}", mib, model=model) for i, mib in enumerate(sizes))
    return OfferedSlice(f"slice of {model}", driver, cards=made)


def place(cards, fraction=HALF, driver=DRIVER, others=None, **demands):
    """Place a pod where there are `cards` without a model, and `others` by their model."""
    ledger = Ledger()
    ledger.cards.put_slice(offer(driver, cards))
    for model, of_model in (others or {}).items():
        ledger.cards.put_slice(offer(driver, of_model, model))
    writes = driver == NVIDIA_DRIVER
    share = RequestedShare(fraction, CLAIMED, writes_limits=writes, driver=driver)
    return ledger.place(PlacementRequest(share, Demands(**demands)), 0.0)


TWO_SIZES, ANY, WHOLE = {81920: 3, 40960: 1}, Placement((), 0, ()), Fraction(8, 8)
TINY = Fraction.rounded_up("0.00001", 8)
PARTS = Fraction.of_memory(160, 8).shared_by([Fraction.of_memory(10, 8)] * 16)
OF_SIZES = {1000 + size: size + 1 for size in range(12)}
FORGED = Placement((), 0, (), cards=(100,))
H100S = {"NVIDIA H100 80GB HBM3": {81559: 2}, "NVIDIA A10": {23028: 4}}
H100, B200, LARGE = GpuKinds(models=("H100",)), GpuKinds(models=("B200",)), GpuKinds(min_mib=50000)


SIZES = {
    "a fraction of the agent's driver names none": (TWO_SIZES, {}, ()),
    "whatever is offered": ({}, {}, ()),
    "memory of another driver": ({40960: 1}, {"fraction": MEMORY, "driver": NVIDIA_DRIVER}, ()),
    "a whole card": ({}, {"fraction": WHOLE}, ()),
    "of any model while none is offered": ({}, {"fraction": WHOLE, "kinds": B200}, ()),
    "for memory, the smallest first": (TWO_SIZES, {"fraction": MEMORY}, (40960, 81920)),
    "the smallest and the most frequent": (OF_SIZES, {"fraction": MEMORY}, (1000, *range(1006, 1012))),
    "of few that a claim can name, the smallest": (TWO_SIZES, {"fraction": PARTS}, (40960,)),
    "large enough": (TWO_SIZES, {"fraction": MEMORY, "kinds": LARGE}, (81920,)),
    "of accepted models": ({}, {"fraction": MEMORY, "others": H100S, "kinds": H100}, (81559,)),
    "assumed": ({}, {"fraction": MEMORY, "assume": Assumption(1, 24576)}, (24576,)),
    # Of a forged size, a few MiB could be a whole card.
    "forged ones are chosen again": ({81920: 1}, {"fraction": MEMORY, "existing": FORGED}, (81920,)),
}


@pytest.mark.parametrize(("cards", "asked", "sizes"), SIZES.values(), ids=SIZES)
def test_a_claim_names_the_sizes_of_the_cards_that_it_may_take(cards, asked, sizes):
    assert place(cards, **asked) == Placement((), 0, (), cards=sizes)


def test_a_limit_that_is_written_needs_one_size():
    placed = place(TWO_SIZES, driver=NVIDIA_DRIVER)
    assert (placed.cards, placed.gpu_mib) == ((81920,), 81920)


@pytest.mark.parametrize(
    ("cards", "asked", "why"),
    [
        ({24563: 1}, {"fraction": TINY}, "the share is less than 1 MiB of each card, the largest has 24563"),
        ({40960: 1}, {"kinds": LARGE}, "no card has 50000 MiB of memory, the largest has 40960"),
        ({40960: 1}, {"fraction": Fraction.of_memory(50000, 8)}, "no card has 50000 MiB of memory"),
        ({}, {"fraction": MEMORY}, f"DRA driver {DRIVER} offers no card yet"),
        (
            {},
            {"fraction": WHOLE, "others": H100S, "kinds": B200},
            "no card has one of its models: there are NVIDIA-A10, NVIDIA-H100-80GB-HBM3; fix the annotation",
        ),
        ({1: 1}, {"kinds": B200}, f"DRA driver {DRIVER} states no model of its cards: leave gpu-model out"),
    ],
)
def test_a_claim_that_no_card_can_serve_is_denied(cards, asked, why):
    denied = place(cards, **asked)
    assert isinstance(denied, Unschedulable)
    assert denied.why.startswith(why)


def test_a_whole_card_may_be_of_a_model_that_nobody_can_share():
    ledger = Ledger()
    ledger.cards.put_slice(OfferedSlice("one", DRIVER, cards=(ClaimableCard("gpu-0", 40960, model="A100"),)))
    alone = ClaimableCard("gpu-1", 81559, model="H100", is_shareable=False)
    ledger.cards.put_slice(OfferedSlice("other", DRIVER, cards=(alone,)))
    kinds = Demands(kinds=GpuKinds(models=("H100",)))
    whole = PlacementRequest(RequestedShare(Fraction(8, 8), CLAIMED, driver=DRIVER), kinds)
    assert ledger.place(whole, 0.0) == Placement((), 0, ())
    half = PlacementRequest(RequestedShare(HALF, CLAIMED, driver=DRIVER), kinds)
    assert isinstance(ledger.place(half, 0.0), Unschedulable)
