"""A ledger with a node whose cards a DRA driver offers."""

from controller.watch.resources import SeenNode
from kube.dra import DRIVER, SHARES_OF_CARD
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedPart, OfferedSlice
from modes.facts import NodeFact

TAINT = f"{DRIVER}/xid=79"


def part(device, mib, pool="cards", request=""):
    """The share of a card of 81920 MiB that so many MiB are."""
    share = mib * SHARES_OF_CARD // 81920
    return ClaimedPart(CardKey(DRIVER, pool, device), share=share, request=request)


def offer(node="cards", *, mib=81920):
    """A slice with two cards, of which the second has a taint."""
    cards = (
        ClaimableCard("gpu-0", mib, f"GPU-{node}-0", "NVIDIA A100"),
        ClaimableCard("gpu-1", mib, f"GPU-{node}-1", "NVIDIA A100", taint=TAINT),
    )
    return OfferedSlice(f"{node}-slice", DRIVER, node, node, cards=cards)


def with_cards(state, *, usable=True):
    """Add the node "cards", two pods of which hold parts of gpu-0, and return the state."""
    state.set_node(SeenNode(NodeFact(name="cards", usable=usable), "uid-cards"))
    state.watched_offers.set(offer())
    state.watched_claims.set(CardClaim("team", "train-claim", "train", (part("gpu-0", 20480),)))
    state.watched_claims.set(CardClaim("other", "notebook-claim", "notebook", (part("gpu-0", 10240),)))
    return state
