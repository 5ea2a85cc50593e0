"""What claims hold of offered cards: kept by changes, it equals a recount of everything."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.dra import DRIVER, NVIDIA_DRIVER, SHARES_OF_CARD
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
from tests.effort import examples

NODES = ("a", "b", "")
DEVICES = ("gpu-0", "gpu-1", "gpu-10")

cards = st.builds(
    ClaimableCard,
    st.sampled_from(DEVICES),
    st.sampled_from([24576, 81920]),
    is_shareable=st.booleans(),
    taint=st.sampled_from(["", "gpu.nvidia.com/xid=79"]),
)
slices = st.builds(
    OfferedSlice,
    st.sampled_from(["one", "two", "three"]),
    st.sampled_from([DRIVER, NVIDIA_DRIVER]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(NODES),
    st.integers(1, 2),
    # Each device once in its pool: which of two counts is not defined.
    st.lists(cards, max_size=3, unique_by=lambda card: card.device).map(tuple),
)
keys = st.builds(
    CardKey, st.sampled_from([DRIVER, NVIDIA_DRIVER]), st.sampled_from(["a", "b"]), st.sampled_from(DEVICES)
)
parts = st.one_of(
    st.builds(ClaimedPart, keys, st.integers(1, 90000)),
    st.builds(ClaimedPart, keys, share=st.sampled_from([125_000, 333_333, SHARES_OF_CARD])),
)
claims = st.builds(
    CardClaim,
    st.sampled_from(["team", "other"]),
    st.sampled_from(["x", "y"]),
    parts=st.lists(parts, max_size=3).map(tuple),
)
changes = st.lists(
    st.tuples(st.just("put_slice"), slices)
    | st.tuples(st.just("remove_slice"), st.sampled_from(["one", "two", "three"]))
    | st.tuples(st.just("put_claim"), claims)
    | st.tuples(st.just("remove_claim"), st.tuples(st.just("team"), st.sampled_from(["x", "y"]))),
    max_size=25,
)


def used(key, card, held):
    """One card, counted from all claims."""
    on_it = [[part for part in claim.parts if part.card == key] for claim in held]
    mib = sum(part.mib for found in on_it for part in found)
    share = sum(part.share for found in on_it for part in found)
    return CardUse(key, card, mib + card.mib * share // SHARES_OF_CARD, sum(map(bool, on_it)), share)


def recount(offered, held, node):
    """The cards of a node, from the whole lists."""
    there = [each for each in offered if each.node == node]
    found = {}
    for each in there:
        pool = each.driver, each.pool
        if each.generation == max(other.generation for other in there if (other.driver, other.pool) == pool):
            for card in each.cards:
                found[CardKey(*pool, card.device)] = card
    return {key: used(key, card, held) for key, card in found.items()}


def is_ambiguous(offered):
    """Whether two slices of a generation have the same device."""
    named = [
        (each.driver, each.pool, each.node, each.generation, card.device)
        for each in offered
        for card in each.cards
    ]
    return len(named) != len(set(named))


@settings(max_examples=examples(300))
@given(changes)
def test_what_changes_keep_is_a_recount_of_everything(changed):
    kept, offered, held = ClaimedCards(), {}, {}
    for change, what in changed:
        getattr(kept, change)(what)
        if change == "put_slice":
            offered[what.name] = what
        elif change == "put_claim":
            held[what.key] = what
        else:
            (offered if change == "remove_slice" else held).pop(what, None)
    listed = [each for each in offered.values() if each.cards]
    assert kept.nodes() == {each.node for each in listed} - {""}
    assert kept.slice_names == {each.name for each in listed}
    assert kept.claim_keys == {key for key, claim in held.items() if claim.parts}
    for driver in (DRIVER, NVIDIA_DRIVER):
        cards = [card for each in listed for card in each.cards if each.driver == driver]
        shared = [(card.model.replace(" ", "-"), card.mib) for card in cards if card.is_shareable]
        assert kept.kinds(driver) == Counter(shared)
    if not is_ambiguous(listed):
        for node in ("a", "b"):
            assert {use.key: use for use in kept.on(node)} == recount(listed, held.values(), node)
    for name in list(kept.slice_names):
        kept.remove_slice(name)
    for key in list(kept.claim_keys):
        kept.remove_claim(key)
    assert {name: value for name, value in vars(kept).items() if isinstance(value, dict) and value} == {}


def offer(name="slice", *sizes, node="n", **more):
    found = [ClaimableCard(f"gpu-{number}", mib) for number, mib in enumerate(sizes)]
    return OfferedSlice(name, DRIVER, node, node, cards=tuple(found), **more)


def part(device, mib=0, pool="n", share=0):
    return ClaimedPart(CardKey(DRIVER, pool, device), mib, share)


def test_cards_are_in_the_order_of_their_numbers():
    kept = ClaimedCards()
    kept.put_slice(offer("slice", *[81920] * 12))
    assert [use.card.device for use in kept.on("n")][8:] == ["gpu-8", "gpu-9", "gpu-10", "gpu-11"]


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
    assert kept.put_claim(CardClaim("team", "c")) == {"m"}
    assert (kept.claim(claim.key), kept.remove_claim(claim.key)) == (None, set())
    assert kept.remove_slice("s") == {"m"}
    assert kept.remove_slice("s") == set()


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


def test_a_node_with_any_number_of_slices_has_only_so_many_cards():
    kept = ClaimedCards()
    many = [
        OfferedSlice(f"s{number}", DRIVER, "n", "n", cards=(ClaimableCard(f"gpu-{number}", 81920),))
        for number in range(MAX_CARDS_OF_NODE)
    ]
    for each in many:
        kept.put_slice(each)
    assert len(kept.on("n")) == MAX_CARDS_OF_NODE
    assert kept.put_slice(offer("more", 81920)) == set()
    assert len(kept.on("n")) == MAX_CARDS_OF_NODE
    assert kept.put_slice(offer("other", 81920, node="m")) == {"m"}
    kept.remove_slice("s0")
    assert kept.put_slice(many[0]) == {"n"}
