"""Cards that DRA drivers offer, on the page."""

from kube.dra import DRIVER
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedPart, OfferedSlice
from ledger.use import PodUses, ShareUse
from modes.facts import NodeFact, PodFact
from tests.web.asking import Source, shown


def with_cards(source, **more):
    """Add a node whose two cards a DRA driver offers; claims hold parts of the first."""
    ledger = source.ledger
    ledger.set_node(NodeFact(name="cards", **more))
    good = ClaimableCard("gpu-0", 80000, "GPU-0", "L4")
    offered = good, ClaimableCard("gpu-1", 40000, model="L4", taint="x/lost")
    changed = ledger.cards.put_slice(OfferedSlice("s", DRIVER, "cards", "cards", cards=offered))
    for namespace, name, mib in (("team", "mine", 20000), ("hidden", "secret", 10000)):
        parts = (ClaimedPart(CardKey(DRIVER, "cards", "gpu-0"), mib),)
        changed |= ledger.cards.put_claim(CardClaim(namespace, f"{name}-claim", name, parts))
    ledger.note_cards(changed)
    return source


def test_a_card_of_a_driver_is_a_box_of_mib():
    nodes, found = shown(with_cards(Source()), created=lambda _namespace, pod: f"created {pod}")
    row = nodes["cards"]
    assert (row["product"], row["mib"]) == ("L4", 80000)
    mine = {"kind": "holder", "slices": 20000, "namespace": "team", "pod": "mine", "mib": 20000}
    secret = {"kind": "holder", "slices": 10000, "namespace": "hidden", "pod": "secret", "mib": 10000}
    assert row["gpus"] == [
        {
            "capacity": 80000,
            "card": "gpu-0",
            "free": 50000,
            "shares": [{**mine, "created": "created mine"}, {**secret, "created": "created secret"}],
        },
        {"capacity": 40000, "card": "gpu-1", "mib": 40000, "taint": "x/lost", "unhealthy": True},
    ]
    assert found["cards"] == {"cards": 2, "mib": 120000, "claimed": 30000, "free": 50000}


def test_a_share_of_a_card_says_its_queue_and_what_its_pod_uses_as_its_agent_counts_the_card():
    source = with_cards(Source())
    source.ledger.set_pod(PodFact(namespace="team", name="mine", node="cards", queues=("nightly",)))
    used = ShareUse(20000, 100, 300, 200, 3, "2026-01-01T00:00:00Z", 5400)
    use = PodUses({("team", "mine", 5): used, ("hidden", "secret", 0): used}, {"GPU-0": 5, "GPU-1": 0})
    mine, secret = shown(source, use=lambda _: use)[0]["cards"]["gpus"][0]["shares"]
    told = {"queue": "nightly", "used": 100, "peak": 300, "limit": 20000, "busy": 3, "idle": 5400}
    assert mine.items() >= told.items()
    assert "used" not in secret


def test_cards_of_a_node_that_takes_no_pods_have_nothing_free():
    nodes, found = shown(with_cards(Source(), usable=False))
    assert "free" not in nodes["cards"]["gpus"][0]
    assert found["cards"]["free"] == 0
