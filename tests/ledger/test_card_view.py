"""Cards with the pods whose claims hold them."""

from kube.dra import DRIVER, SHARES_OF_CARD
from ledger.card_view import MAX_SHARES, CardShare, cards_of_node
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedCards, ClaimedPart, OfferedSlice


def part(device, mib, pool="a"):
    return ClaimedPart(CardKey(DRIVER, pool, device), mib)


def cards():
    kept = ClaimedCards()
    lost = ClaimableCard("gpu-1", 40960, taint="x/lost")
    offered = ClaimableCard("gpu-0", 81920, "GPU-0", "NVIDIA L4"), lost
    kept.put_slice(OfferedSlice("b", DRIVER, "b", "b", cards=offered[:1]))
    kept.put_slice(OfferedSlice("a", DRIVER, "a", "a", cards=offered))
    return kept


def test_cards_are_listed_by_node_with_what_each_pod_holds():
    kept, whole = cards(), ClaimedPart(CardKey(DRIVER, "a", "gpu-1"), share=SHARES_OF_CARD)
    kept.put_claim(CardClaim("team", "one", "pod-1", (part("gpu-0", 1000), part("gpu-0", 24))))
    kept.put_claim(CardClaim("team", "two", "", (part("gpu-0", 40960), whole)))
    queues = {("team", "pod-1"): "nightly"}
    first, second = cards_of_node(kept, "a", lambda pod: queues.get(pod, ""), takes_pods=True)
    [third] = cards_of_node(kept, "b", takes_pods=True)
    named = [(card.node, card.device, card.taint) for card in (first, second, third)]
    assert named == [("a", "gpu-0", ""), ("a", "gpu-1", "x/lost"), ("b", "gpu-0", "")]
    two = CardShare("team", "two", "", 40960)
    assert first.shares == (two, CardShare("team", "one", "pod-1", 1024, "nightly"))
    assert (first.claimed_mib, first.free_mib, first.claims) == (41984, 39936, 2)
    assert second.shares == (two,)
    assert (third.shares, third.uuid, third.model) == ((), "GPU-0", "NVIDIA L4")


def test_nothing_is_free_of_a_tainted_card_or_a_node_that_takes_no_pods():
    kept = cards()
    kept.put_claim(CardClaim("team", "c", parts=(part("gpu-0", 20),)))
    assert [card.free_mib for card in cards_of_node(kept, "a", takes_pods=True)] == [81900, 0]
    assert [card.free_mib for card in cards_of_node(kept, "a", takes_pods=False)] == [0, 0]


def test_the_largest_shares_are_listed_and_all_claims_counted():
    kept = cards()
    for number in range(MAX_SHARES + 1):
        kept.put_claim(CardClaim("team", f"c{number}", parts=(part("gpu-0", 1 + number % 9, "b"),)))
    [card] = cards_of_node(kept, "b", takes_pods=True)
    assert (len(card.shares), card.claims) == (MAX_SHARES, MAX_SHARES + 1)
    assert [share.memory_mib for share in card.shares] == sorted(
        (share.memory_mib for share in card.shares), reverse=True
    )
    assert card.claimed_mib - sum(share.memory_mib for share in card.shares) == 1
