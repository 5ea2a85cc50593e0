"""Which cards a claim may take: those that drivers offer, or that the policy assumes."""

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
    """A ResourceSlice with a number of cards of each size."""
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


def test_a_fraction_of_the_agents_driver_names_no_sizes_whatever_is_offered():
    assert place({81920: 3, 40960: 1}) == place({}) == Placement((), 0, ())


def test_for_memory_the_smallest_cards_come_first():
    assert place({81920: 3, 40960: 1}, MEMORY).cards == (40960, 81920)


def test_of_many_sizes_the_smallest_and_the_most_frequent_are_taken():
    """Cards that are smaller than all that the claim names would be taken whole."""
    placed = place({1000 + size: size + 1 for size in range(12)}, MEMORY)
    assert placed.cards == (1000, *range(1006, 1012))
    parts = Fraction.of_memory(160, 8).shared_by([Fraction.of_memory(10, 8)] * 16)
    assert place({40960: 1, 81920: 3}, parts).cards == (40960,)


def test_a_share_of_less_than_a_mebibyte_is_denied_as_such():
    denied = place({24563: 1}, Fraction.rounded_up("0.00001", 8), kinds=GpuKinds(min_mib=1))
    assert denied.why == "the share is less than 1 MiB of each card, the largest has 24563"


def test_a_limit_that_is_written_needs_one_size():
    placed = place({81920: 3, 40960: 1}, driver=NVIDIA_DRIVER)
    assert (placed.cards, placed.gpu_mib) == ((81920,), 81920)


def test_only_large_enough_cards_count():
    assert place({81920: 1, 40960: 1}, MEMORY, kinds=GpuKinds(min_mib=50000)).cards == (81920,)
    denied = place({40960: 1}, kinds=GpuKinds(min_mib=50000))
    assert isinstance(denied, Unschedulable)
    assert denied.why == "no card has 50000 MiB of memory, the largest has 40960"
    assert isinstance(place({40960: 1}, Fraction.of_memory(50000, 8)), Unschedulable)


H100S = {"NVIDIA H100 80GB HBM3": {81559: 2}, "NVIDIA A10": {23028: 4}}


def test_only_cards_of_accepted_models_count():
    assert place({}, MEMORY, others=H100S, kinds=GpuKinds(models=("H100",))).cards == (81559,)


def test_a_model_that_no_card_has_is_denied_with_those_that_there_are():
    denied = place({}, Fraction(8, 8), others=H100S, kinds=GpuKinds(models=("B200",)))
    assert denied == Unschedulable(
        "no card has one of its models: there are NVIDIA-A10, NVIDIA-H100-80GB-HBM3; fix the annotation"
    )
    unnamed = place({40960: 1}, kinds=GpuKinds(models=("B200",)))
    assert unnamed == Unschedulable(f"DRA driver {DRIVER} states no model of its cards: leave gpu-model out")
    assert place({}, Fraction(8, 8), kinds=GpuKinds(models=("B200",))) == Placement((), 0, ())


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


def test_memory_of_other_drivers_and_whole_cards_need_no_sizes():
    assert place({40960: 1}, MEMORY, NVIDIA_DRIVER) == Placement((), 0, ())
    assert place({}, Fraction(8, 8)) == Placement((), 0, ())


def test_without_offers_the_assumed_size_is_taken_or_the_pod_denied():
    assert place({}, MEMORY, assume=Assumption(1, 24576)).cards == (24576,)
    denied = place({}, MEMORY)
    assert isinstance(denied, Unschedulable)
    assert "offers no card yet" in denied.why


def test_sizes_of_an_earlier_review_that_nothing_counts_are_chosen_again():
    """Anybody may write them into a pod: of an invented size, a few MiB are a whole card."""
    forged = Placement((), 0, (), cards=(100,))
    assert place({81920: 1}, MEMORY, existing=forged).cards == (81920,)
