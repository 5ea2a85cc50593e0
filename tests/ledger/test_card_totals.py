"""Sums of cards by driver: kept by changes, they equal a count of everything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.dra import DRIVER, NVIDIA_DRIVER
from ledger.card_view import cards_of_node
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedCards, ClaimedPart, OfferedSlice
from ledger.totals import CardTotals, RunningCardTotals
from tests.effort import examples
from tests.ledger.test_claimed_cards import changes

usable = st.dictionaries(st.sampled_from(["a", "b"]), st.booleans())


def counted(cards, takes_pods):
    """The sums, from the views of all nodes."""
    found = {}
    for node in cards.nodes():
        for card in cards_of_node(cards, node, takes_pods=takes_pods(node)):
            before = found.get(card.driver, CardTotals())
            one = (1, card.memory_mib, card.claimed_mib, card.free_mib)
            found[card.driver] = CardTotals(*map(sum, zip(before, one, strict=True)))
    return found


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(changes, usable), max_size=5))
def test_what_changes_keep_is_a_count_of_everything(steps):
    cards, takes = ClaimedCards(), {}
    totals = RunningCardTotals(cards, lambda node: takes.get(node, True))
    for changed, usable_now in steps:
        for change, what in changed:
            totals.note(getattr(cards, change)(what))
        takes.update(usable_now)
        totals.note(usable_now)
        assert totals.by_driver() == counted(cards, lambda node: takes.get(node, True))


def test_drivers_are_counted_apart():
    cards = ClaimedCards()
    totals = RunningCardTotals(cards, lambda _node: True)
    for driver, mib in ((DRIVER, 81920), (NVIDIA_DRIVER, 24576)):
        offered = ClaimableCard("gpu-0", mib), ClaimableCard("gpu-1", mib, taint="x/lost")
        totals.note(cards.put_slice(OfferedSlice(driver, driver, driver, "node", cards=offered)))
    totals.note(
        cards.put_claim(CardClaim("team", "c", parts=(ClaimedPart(CardKey(DRIVER, DRIVER, "gpu-0"), 20),)))
    )
    assert totals.by_driver() == {
        DRIVER: CardTotals(2, 163840, 20, 81900),
        NVIDIA_DRIVER: CardTotals(2, 49152, 0, 24576),
    }
