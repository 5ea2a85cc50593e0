"""Which cards a waiting claim could take, and what is free of them."""

from kube.dra import DRIVER, SHARES_OF_CARD
from ledger.claim_room import MAX_NAMED, ClaimAsk, ClaimRoom, LeftOut, room_of
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedCards, ClaimedPart, OfferedSlice
from modes.gpu_kinds import EVERY_KIND, GpuKinds

HALF_OF_40 = ClaimAsk(20480, card_mib=40960)
HALF_OF_80 = ClaimAsk(40960, card_mib=81920)


def offered(**nodes):
    """The cards of nodes, as MiB or as they are offered."""
    kept = ClaimedCards()
    for node, cards in nodes.items():
        found = [
            ClaimableCard(f"gpu-{i}", card, model="NVIDIA A100-SXM4-80GB") if isinstance(card, int) else card
            for i, card in enumerate(cards)
        ]
        kept.put_slice(OfferedSlice(node, DRIVER, node, node, cards=tuple(found)))
    return kept


def hold(kept, node, device, mib=0, share=0):
    part = ClaimedPart(CardKey(DRIVER, node, device), mib, share)
    kept.put_claim(CardClaim(node, f"of-{device}", parts=(part,)))


def search(kept, asked, kinds=EVERY_KIND, driver=DRIVER, **refused):
    return room_of(driver, asked, kinds, kept, lambda node: refused.get(node, ""))


def test_cards_of_the_size_are_counted_with_what_is_free_of_them():
    kept = offered(a=[40960, 81920], b=[81920, 24576])
    hold(kept, "a", "gpu-0", 30000)
    hold(kept, "a", "gpu-1", 41960)
    assert search(kept, HALF_OF_40) == ClaimRoom(1, 1, 0, 0, 10960, 40960, "a")
    found = search(kept, HALF_OF_80)
    assert found == ClaimRoom(2, 2, 1, 1, 81920, 81920, "b", fit=2)
    assert found.has_room


def test_a_whole_card_is_one_that_nobody_claims():
    kept = offered(a=[81920, 81920])
    hold(kept, "a", "gpu-0", 1)
    for count, nodes in ((1, 1), (2, 0)):
        found = search(kept, ClaimAsk(share=SHARES_OF_CARD, count=count))
        assert (found.with_room, found.nodes_with_room, found.fit) == (1, nodes, nodes)


def test_a_share_has_room_by_the_part_of_each_card_that_is_free():
    kept = offered(a=[40960], b=[81920])
    hold(kept, "a", "gpu-0", share=500_000)
    hold(kept, "b", "gpu-0", share=625_000)
    found = search(kept, ClaimAsk(share=500_000))
    assert (found.cards, found.with_room) == (2, 1)
    assert (found.most_free_mib, found.most_free_of, found.most_free_on) == (20480, 40960, "a")


def test_memory_is_the_share_that_the_claim_asks_of_a_card_of_that_size():
    kept = offered(a=[24563], b=[143771], c=[5000])
    hold(kept, "a", "gpu-0", share=800_000)
    hold(kept, "b", "gpu-0", share=850_000)
    found = search(kept, ClaimAsk(5120, shares=((5120, 1_000_000), (24563, 208_444))))
    assert (found.cards, found.with_room, found.most_free_mib) == (2, 0, 21566)


def test_model_and_least_memory_narrow_the_cards():
    kept = offered(a=[24576, 81920, ClaimableCard("gpu-2", 81920, model="NVIDIA H100 80GB HBM3")])
    assert search(kept, ClaimAsk(5), kinds=GpuKinds(("A100-80",))).cards == 2
    assert search(kept, ClaimAsk(5), kinds=GpuKinds(("H100",))).cards == 1
    assert search(kept, ClaimAsk(5), kinds=GpuKinds(min_mib=40960)).cards == 2


def test_tainted_cards_and_nodes_that_the_pod_cannot_use_are_left_out():
    tainted = ClaimableCard("gpu-0", 81920, taint=f"{DRIVER}/xid=79")
    kept = offered(a=[tainted, 81920], b=[81920], c=[24576])
    found = search(kept, HALF_OF_80, b="cordoned or not ready", c="cordoned or not ready")
    assert (found.cards, found.usable, found.with_room, found.most_free_on) == (3, 1, 1, "a")
    assert found.left_out == (
        LeftOut("a", "gpu-0", f"taint {DRIVER}/xid=79"),
        LeftOut("b", "", "cordoned or not ready"),
    )


def test_only_some_are_named_as_left_out():
    kept = offered(**{f"n{number}": [81920] for number in range(MAX_NAMED + 2)})
    found = search(kept, HALF_OF_80, **dict.fromkeys(kept.nodes(), "deleted"))
    assert (len(found.left_out), found.more_left_out, found.has_room) == (MAX_NAMED, 2, False)
