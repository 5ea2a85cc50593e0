"""Sums of cards by driver: kept by changes, they equal a count of everything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.card_view import cards_of_node
from ledger.claimed_cards import ClaimedCards
from ledger.totals import CardTotals, RunningSums, card_totals_of
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
    totals = RunningSums(lambda node: card_totals_of(cards.on(node), takes_pods=takes.get(node, True)))
    for changed, usable_now in steps:
        for change, what in changed:
            totals.note(getattr(cards, change)(what))
        takes.update(usable_now)
        totals.note(usable_now)
        assert totals.sums() == counted(cards, lambda node: takes.get(node, True))
