"""One request for slices and MIG instances: room decides, then the policy's order; the answer says why."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from kube.scheduling import Constraints, Taint, Toleration
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedPart, OfferedSlice
from ledger.placement_request import Placement, Unschedulable
from ledger.reservations import LIFETIME_SECONDS
from modes.claim_name import NamedShare
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.ledger.cluster import changed, gpu_node, holder, ledger_of, request_of
from tests.ledger.test_instances import A100_80, mig_node, native
from tests.ledger.test_quotas_of_claims import offer

MIG_FIRST, SLICES_FIRST = ("mig", "per-gpu"), ("per-gpu", "mig")


def ask(share=1, prefer=MIG_FIRST, **more):
    fraction = Fraction(share, 8) if share < 100 else Fraction.of_memory(share, 8)
    return request_of(fraction, prefer=prefer, **more)


def family(answer, other="per-gpu"):
    assert isinstance(answer, Placement), answer
    return "mig" if answer.instance is not None else other


def both(*, full_mig=False, full_slices=False, **profiles):
    nodes = mig_node("m", A100_80, **(profiles or {"p1g_10gb": 1})), gpu_node("s", 1)
    held = [native("x", "m", "1g.10gb")] if full_mig else []
    held += [holder("y", "s", (0, 8))] if full_slices else []
    return ledger_of(*nodes, holders=tuple(held))


@pytest.mark.parametrize(
    ("ledger", "prefer", "taken", "why"),
    [
        (both(), MIG_FIRST, "mig", ""),
        (both(), SLICES_FIRST, "per-gpu", ""),
        (both(full_mig=True), MIG_FIRST, "per-gpu", "mig has no room now"),
        (both(full_slices=True), SLICES_FIRST, "mig", "per-gpu has no room now"),
        (both(full_mig=True, full_slices=True), MIG_FIRST, "mig", ""),
        (both(full_mig=True, full_slices=True), SLICES_FIRST, "per-gpu", ""),
        (both(p7g_80gb=1), MIG_FIRST, "per-gpu", "mig would give 7g.80gb, more than twice the request"),
        (ledger_of(mig_node("m", p1g_10gb=1)), SLICES_FIRST, "mig", None),
        (ledger_of(gpu_node("s", 1)), MIG_FIRST, "per-gpu", None),
    ],
)
@pytest.mark.parametrize("share", [1, 8000], ids=["fraction", "memory"])
def test_room_decides_then_the_order_and_the_answer_says_why(ledger, prefer, taken, why, share):
    answer = ledger.place(ask(share, prefer), 0.0)
    assert family(answer) == taken
    if why is None:
        assert answer.passed_over.startswith(f"{prefer[0]} cannot: ")
    else:
        assert answer.passed_over == why


@pytest.mark.parametrize(("oversized", "taken", "node"), [("wait", "per-gpu", None), ("take", "mig", "m")])
def test_more_than_twice_waits_for_slices_unless_the_policy_takes_it(oversized, taken, node):
    answer = both(full_slices=True, p7g_80gb=1).place(ask(oversized=oversized), 0.0)
    assert (family(answer), answer.node) == (taken, node)


def test_an_instance_by_name_leaves_only_instances_and_shared_containers_only_slices():
    ledger = both(full_mig=True)
    assert family(ledger.place(ask(resource="nvidia.com/mig-1g.10gb"), 0.0)) == "mig"
    sharing = request_of(Fraction(2, 8, split=(1, 1)), prefer=MIG_FIRST)
    assert family(both(p2g_20gb=1).place(sharing, 0.0)) == "per-gpu"


def test_what_neither_can_ever_hold_is_denied_in_the_words_of_the_first():
    answer = ledger_of().place(ask(), 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.why.startswith("no node offers MIG instances")


def test_an_instance_that_the_pod_has_already_is_kept_though_slices_have_room_by_now():
    ledger = ledger_of(mig_node("m", A100_80, p1g_10gb=1), gpu_node("s", 1))
    kept = ledger.place(ask(prefer=MIG_FIRST), 0.0)
    again = ledger.place(ask(prefer=SLICES_FIRST, existing=kept, reservation="again"), 1.0)
    assert again.instance == kept.instance
    (node,) = [each for each in ledger.view().nodes if each.name == "s"]
    assert [gpu.used for gpu in node.gpus] == [0]


MIG_OR_CLAIM, CLAIM_OR_MIG = ("mig", "dra"), ("dra", "mig")


def claiming(share=1, prefer=CLAIM_OR_MIG, driver=DRIVER, **more):
    writes = driver == NVIDIA_DRIVER
    return ask(
        share, prefer, mode="dra", driver=driver, writes_limits=writes, cpu_milli=1000, memory_bytes=9, **more
    )


def with_card(*, full_mig=False, claimed=0, driver=DRIVER, **node):
    """A free 1g.10gb, and a card of 80 GiB with so much claimed, in millionths or MiB."""
    held = (native("x", "m", "1g.10gb"),) if full_mig else ()
    ledger = ledger_of(mig_node("m", A100_80, p1g_10gb=1), gpu_node("d", 0, **node), holders=held)
    ledger.put_offer(offer("d", 81920, driver=driver))
    amount = {"share": claimed} if driver == DRIVER else {"mib": claimed}
    part = ClaimedPart(CardKey(driver, "d", "gpu-0"), **amount)
    ledger.cards.put_claim(CardClaim("team", "c", parts=(part,) if claimed else ()))
    return ledger


FULL = {"full_mig": True, "claimed": 950_000}


@pytest.mark.parametrize(
    ("state", "prefer", "taken", "why"),
    [
        ({}, MIG_OR_CLAIM, "mig", ""),
        ({}, CLAIM_OR_MIG, "dra", ""),
        ({"full_mig": True, "claimed": 800_000}, MIG_OR_CLAIM, "dra", "mig has no room now"),
        ({"claimed": 950_000}, CLAIM_OR_MIG, "mig", "dra has no room now"),
        ({"claimed": 80_000, "driver": NVIDIA_DRIVER}, CLAIM_OR_MIG, "mig", "dra has no room now"),
        ({"claimed": 70_000, "driver": NVIDIA_DRIVER}, CLAIM_OR_MIG, "dra", ""),
        ({"usable": False}, CLAIM_OR_MIG, "mig", "dra has no room now"),
        ({"cpu_milli": 900}, CLAIM_OR_MIG, "mig", "dra has no room now"),
        ({"memory_bytes": 8}, CLAIM_OR_MIG, "mig", "dra has no room now"),
        (FULL, MIG_OR_CLAIM, "mig", ""),
        (FULL, CLAIM_OR_MIG, "dra", ""),
    ],
)
@pytest.mark.parametrize("share", [1, 8000], ids=["fraction", "memory"])
def test_a_claim_has_room_if_an_offered_card_has(state, prefer, taken, why, share):
    answer = with_card(**state).place(claiming(share, prefer, state.get("driver", DRIVER)), 0.0)
    assert (family(answer, "dra"), answer.passed_over) == (taken, why)


@pytest.mark.parametrize(
    "demands",
    [
        {"constraints": Constraints(node_name="m")},
        {"constraints": Constraints({"nvidia.com/gpu.product": A100_80})},
        {"kinds": GpuKinds(models=("A100",))},
        {},
    ],
    ids=["node", "label", "kind", "full"],
)
def test_of_nodes_that_a_pod_excludes_or_that_are_full_no_card_is_looked_at(demands, monkeypatch):
    """On 1,000 nodes that would take a decision 50 ms."""
    ledger = with_card(claimed=0 if demands else 950_000)
    others = [ClaimableCard("gpu-0", 81920, model=model) for model in ("NVIDIA H100", "NVIDIA A100")]
    for name, card in zip("de", others, strict=True):
        ledger.put_offer(OfferedSlice(name, DRIVER, name, name, cards=(card,)))
    ledger.cards.most_free()
    monkeypatch.setattr(ledger.cards, "on", None)
    request = changed(claiming(), **demands)
    assert family(ledger.place(request, 0.0), "dra") == "mig"


@pytest.mark.parametrize(("tolerations", "taken"), [((), "mig"), ((Toleration("a", "Exists"),), "dra")])
def test_a_claim_has_room_on_tainted_nodes_for_pods_that_tolerate_them(tolerations, taken):
    ledger = with_card(taints=(Taint("a", "NoSchedule"),))
    request = changed(claiming(), constraints=Constraints(tolerations=tolerations))
    assert family(ledger.place(request, 0.0), "dra") == taken


@pytest.mark.parametrize(("is_refused", "taken"), [(False, ["dra", "mig"]), (True, ["dra", "dra"])])
def test_claims_have_room_beside_all_that_the_scheduler_has_not_tried(is_refused, taken):
    ledger = with_card(claimed=700_000)
    ledger.set_pod(holder("w", None, claimed=(NamedShare(),), is_refused=is_refused))
    answers = [ledger.place(claiming(reservation=f"r{at}"), 0.0) for at in range(2)]
    assert [family(answer, "dra") for answer in answers] == taken


def test_a_claim_counts_as_untried_until_its_pod_is_gone_and_a_reservation_until_it_expires():
    ledger, pod = with_card(claimed=700_000), holder("w", None, claimed=(NamedShare(),))
    for answer, now in (("dra", 0.0), ("mig", 1.0), ("dra", LIFETIME_SECONDS + 1.0)):
        ledger.set_pod(pod)
        assert family(ledger.place(claiming(reservation=f"r{now}"), now), "dra") == answer
        ledger.remove_pod(pod.key)
        ledger.release("r1.0")


def test_while_no_card_is_offered_a_pod_waits_for_an_instance_if_there_are_any():
    full = ledger_of(mig_node("m", A100_80, p1g_10gb=1), holders=(native("x", "m", "1g.10gb"),))
    answers = [ledger.place(claiming(), 0.0) for ledger in (full, ledger_of())]
    assert [family(answer, "dra") for answer in answers] == ["mig", "dra"]


def test_what_no_instance_can_give_is_a_claim_and_an_instance_by_name_is_none():
    for fraction in (Fraction(2, 8, split=(1, 1)), Fraction(1, 8).on_each_of(2)):
        request = changed(claiming(prefer=MIG_OR_CLAIM), fraction=fraction)
        assert family(with_card().place(request, 0.0), "dra") == "dra"
    assert family(with_card().place(claiming(resource="nvidia.com/mig-1g.10gb"), 0.0)) == "mig"
