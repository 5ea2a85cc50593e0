"""What claims hold of offered cards: kept by changes, it equals a recount of everything."""

from kube.dra import DRIVER, SHARES_OF_CARD
from ledger.claimed_cards import (
    MAX_CARDS_OF_NODE,
    CardClaim,
    CardKey,
    CardUse,
    ClaimableCard,
    ClaimedCards,
    ClaimedPart,
    OfferedSlice,
)


def offer(name="slice", *sizes, node="n", **more):
    found = [ClaimableCard(f"gpu-{number}", mib) for number, mib in enumerate(sizes)]
    return OfferedSlice(name, DRIVER, node, node, cards=tuple(found), **more)


def part(device, mib=0, pool="n", share=0):
    return ClaimedPart(CardKey(DRIVER, pool, device), mib, share)


def test_a_card_that_claims_cannot_share_is_free_or_not():
    card = ClaimableCard("gpu-0", 81920, is_shareable=False)
    assert CardUse(CardKey(DRIVER, "n", "gpu-0"), card).free_mib == 81920
    assert CardUse(CardKey(DRIVER, "n", "gpu-0"), card, 5, 1).free_mib == 0


def test_less_memory_than_was_claimed_is_shown_and_never_free():
    kept = ClaimedCards()
    kept.put_slice(offer("slice", 81920))
    kept.put_claim(CardClaim("team", "c", parts=(part("gpu-0", 81920),)))
    assert kept.put_slice(offer("slice", 40960)) == {"n"}
    [use] = kept.on("n")
    assert (use.claimed_mib, use.free_mib) == (81920, 0)


def test_each_change_returns_the_nodes_that_it_affects():
    kept = ClaimedCards()
    assert kept.put_slice(offer("s", 81920)) == {"n"}
    assert kept.put_slice(offer("s", 81920)) == set()
    assert kept.put_slice(offer("s", 81920, node="m")) == {"n", "m"}
    claim = CardClaim("team", "c", parts=(part("gpu-0", 5, "m"),))
    assert kept.put_claim(claim) == {"m"}
    assert kept.put_claim(claim) == set()
    assert kept.claim(claim.key) == claim
    assert kept.on("m")[0].claims == 1
    assert kept.put_claim(CardClaim("team", "c")) == {"m"}
    assert kept.on("m")[0].claims == 0
    assert (kept.claim(claim.key), kept.remove_claim(claim.key)) == (None, set())
    assert kept.remove_slice("s") == {"m"}
    assert kept.remove_slice("s") == set()


def test_what_is_free_of_the_freest_card_follows_every_change():
    kept = ClaimedCards()
    held = CardClaim("team", "c", parts=(part("gpu-0", 1, share=1),))
    other = OfferedSlice("other", DRIVER, "other", "n", cards=(ClaimableCard("gpu-0", 40960),))
    free, less = {("", 81920): (81920, SHARES_OF_CARD)}, {("", 81920): (81919, SHARES_OF_CARD - 1)}
    for change, most_free in (
        (lambda: kept.put_slice(offer("s", 81920)), free),
        (lambda: kept.put_claim(held), less),
        (lambda: kept.remove_claim(held.key), free),
        (lambda: kept.put_slice(other), free | {("", 40960): (40960, SHARES_OF_CARD)}),
        (lambda: kept.remove_slice("other"), free),
        (lambda: kept.remove_slice("s"), None),
    ):
        change()
        assert kept.most_free().get("n") == most_free


def test_what_is_kept_is_bounded():
    kept = ClaimedCards(max_cards=3, max_claims=1)
    kept.put_slice(offer("one", 81920, 81920))
    kept.put_slice(offer("empty"))
    kept.put_slice(offer("two", 81920, 81920, node="m"))
    assert kept.on("m") == []
    kept.put_slice(offer("two", 81920, node="m"))
    kept.put_slice(offer("three", 81920, node="o"))
    assert kept.nodes() == {"n", "m"}
    kept.put_claim(CardClaim("team", "a", parts=(part("gpu-0", 5),)))
    kept.put_claim(CardClaim("team", "b", parts=(part("gpu-0", 5),)))
    assert kept.on("n")[0].claims == 1
    kept.put_claim(CardClaim("team", "a", parts=(part("gpu-0", 7),)))
    assert kept.on("n")[0].claimed_mib == 7


def test_only_the_newest_slices_of_a_pool_count():
    kept = ClaimedCards()
    kept.put_slice(offer("old", 40960))
    kept.put_slice(offer("new", 81920, generation=2))
    assert [use.card.mib for use in kept.on("n")] == [81920]
    kept.remove_slice("new")
    assert [use.card.mib for use in kept.on("n")] == [40960]


def test_cards_are_in_the_order_of_their_numbers():
    kept = ClaimedCards()
    kept.put_slice(offer("slice", *[81920] * 12))
    assert [use.card.device for use in kept.on("n")][8:] == ["gpu-8", "gpu-9", "gpu-10", "gpu-11"]


def test_a_node_with_any_number_of_slices_has_only_so_many_cards():
    kept = ClaimedCards()
    for number in range(MAX_CARDS_OF_NODE):
        card = ClaimableCard(f"gpu-{number}", 81920)
        kept.put_slice(OfferedSlice(f"s{number}", DRIVER, "n", "n", cards=(card,)))
    assert kept.put_slice(offer("more", 81920)) == set()
    assert len(kept.on("n")) == MAX_CARDS_OF_NODE
    assert kept.put_slice(offer("other", 81920, node="m")) == {"m"}
    kept.remove_slice("s0")
    assert kept.put_slice(offer("more", 81920)) == {"n"}
