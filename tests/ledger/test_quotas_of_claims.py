"""Quotas count claims by the names of their templates: never over a quota, and the same from a list."""

import msgspec
import pytest

from kube.dra import CLAIM_NAME, DRIVER
from kube.names import QUOTA_GATE, RESERVATION_ANNOTATION
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from ledger.gpu_memory import GpuMemory
from ledger.ledger import Ledger
from ledger.ledger_writer import COUNTED_AT_ONCE
from ledger.placement_request import OverQuota, Placement, PlacementRequest, Quota
from modes.claim import ClaimedShare, needs_sizes, template_name
from modes.claim_name import share_of_name
from modes.facts import PodFact
from modes.fraction import Fraction
from modes.registry import MODES
from tests.ledger.cluster import placed, read_pod, request_of

[CLAIMED] = [name for name, mode in MODES.items() if mode.is_claimed]
SMALL, LARGE = 40960, 81920
SIZED = Placement((), 0, (), cards=(SMALL, LARGE))
UID = "0d3f9a52-6b1c-4c5e-9b0e-1f6a7c8d9e0f"
HALF, WHOLE, FIFTH = Fraction(4, 8), Fraction(8, 8), Fraction.rounded_up("0.2", 8)
TWO_QUARTERS, MIB = Fraction(2, 8).on_each_of(2), Fraction.of_memory(20000, 8)
MOST = {HALF: (4, 40960), WHOLE: (8, 81920), FIFTH: (2, 16384), TWO_QUARTERS: (4, 40960), MIB: (4, 20000)}
"""Slices and MiB that a pod counts while cards of 40 and of 80 GiB are offered, and it has no node."""
SLICES = Quota("namespace", "red", slices=8)
MEMORY = Quota("namespace", "red", memory_mib=81920)


def offer(node: str, *sizes: int, name: str = "", driver: str = DRIVER) -> OfferedSlice:
    cards = tuple([ClaimableCard(f"gpu-{number}", mib) for number, mib in enumerate(sizes)])
    return OfferedSlice(name or node, driver, node, node, cards=cards)


OFFERS = (offer("small", SMALL, SMALL), offer("large", LARGE))


def ledger_with(*offers: OfferedSlice) -> Ledger:
    ledger = Ledger()
    for each in offers:
        ledger.put_offer(each)
    return ledger


def asking(fraction: Fraction, *quotas: Quota, namespace: str = "red", **fields: object) -> PlacementRequest:
    known = {"mode": CLAIMED, "driver": DRIVER, "writes_limits": False}
    return request_of(fraction, namespace=namespace, quotas=quotas, **(known | fields))


def pod_of(
    name: str, fraction: Fraction, placement: Placement, *, node: str | None = None, gated: bool = False
) -> PodFact:
    """The pod that the webhook makes, as it is watched."""
    template = template_name(ClaimedShare(DRIVER, fraction, placement.cards))
    annotations = {"clearml-injector/injected": "default"}
    if placement.reservation is not None:
        annotations[RESERVATION_ANNOTATION] = placement.reservation
    spec = {
        "resourceClaims": [{"name": CLAIM_NAME, "resourceClaimTemplateName": template}],
        "nodeName": node,
        "schedulingGates": [{"name": QUOTA_GATE}] if gated else [],
    }
    labels = {"clearml-injector/fraction": "0.500"}
    return read_pod({}, name=name, uid=name, labels=labels, annotations=annotations, spec=spec)


@pytest.mark.parametrize(("fraction", "most"), MOST.items())
def test_a_pod_counts_the_same_before_and_after_it_appears(fraction: Fraction, most: tuple[int, int]) -> None:
    ledger = ledger_with(*OFFERS)
    placement = placed(ledger, asking(fraction, SLICES, reservation=UID))
    reserved = ledger.used_of(SLICES)
    assert (reserved.slices, reserved.pods, reserved.memory) == (most[0], 1, GpuMemory(most[1]))
    assert ledger.pending_count() == 0
    ledger.set_pod(pod_of("copy of another claim", Fraction(1, 8), placement))
    assert ledger.reservations == 1
    ledger.remove_pod(("red", "copy of another claim"))
    ledger.set_pod(pod_of("p", fraction, placement))
    assert (ledger.used_of(SLICES), ledger.reservations) == (reserved, 0)


def test_a_pod_with_a_node_counts_by_the_cards_there() -> None:
    ledger = ledger_with(*OFFERS)
    for fraction, used in {HALF: (4, 20480), WHOLE: (8, 40960), MIB: (4, 20000)}.items():
        placement = Placement((), 0, (), cards=(SMALL, LARGE) if needs_sizes(fraction, DRIVER) else ())
        ledger.set_pod(pod_of("p", fraction, placement, node="small"))
        found = ledger.used_of(SLICES)
        assert (found.slices, found.memory) == (used[0], GpuMemory(used[1]))
    ledger.set_pod(pod_of("p", MIB, SIZED, node="large"))
    assert ledger.used_of(SLICES).slices == 2, "20000 MiB of 81920"


def test_unknown_cards_count_as_the_most_that_a_claim_can_take() -> None:
    ledger = ledger_with()
    ledger.set_pod(pod_of("p", MIB, SIZED))
    ledger.set_pod(pod_of("w", WHOLE, Placement((), 0, ())))
    used = ledger.used_of(SLICES)
    assert (used.slices, used.memory) == (16, GpuMemory(20000, 16))
    ledger.put_offer(offer("large", LARGE))
    assert not ledger.count_again()
    used = ledger.used_of(SLICES)
    assert (used.slices, used.memory) == (2 + 8, GpuMemory(20000 + LARGE))
    ledger.remove_offer("large")
    assert not ledger.count_again()
    assert ledger.used_of(SLICES).slices == 16


def test_a_new_size_of_card_counts_many_pods_again_in_portions() -> None:
    ledger = ledger_with()
    for number in range(2 * COUNTED_AT_ONCE + 1):
        ledger.set_pod(pod_of(str(number), MIB, SIZED))
    ledger.put_offer(offer("large", LARGE))
    saved = []
    while True:
        before, is_left = ledger.used_of(SLICES).slices, ledger.count_again()
        saved.append((before - ledger.used_of(SLICES).slices) // (8 - 2))
        if not is_left:
            break
    assert saved == [COUNTED_AT_ONCE, COUNTED_AT_ONCE, 1]


def test_a_broken_card_without_memory_breaks_no_count() -> None:
    ledger = ledger_with(offer("broken", 0))
    forged = share_of_name(f"{CLAIM_NAME}-5mi-p0-p5-0123456789abcdef")
    assert forged is not None
    ledger.set_pod(msgspec.structs.replace(pod_of("p", MIB, SIZED), claimed=(forged,)))
    assert ledger.used_of(SLICES).slices == 8


def test_a_card_that_no_two_claims_can_share_counts_too() -> None:
    alone = msgspec.structs.replace(offer("n", LARGE).cards[0], is_shareable=False)
    ledger = ledger_with(offer("small", SMALL), OfferedSlice("n", DRIVER, "n", "n", cards=(alone,)))
    ledger.set_pod(pod_of("w", WHOLE, Placement((), 0, ())))
    assert ledger.used_of(MEMORY).memory == GpuMemory(LARGE)


def test_without_a_quota_nothing_is_reserved() -> None:
    ledger = ledger_with(*OFFERS)
    assert (placed(ledger, asking(HALF, reservation="r")).reservation, ledger.reservations) == (None, 0)


def test_only_a_reservation_of_the_same_claim_spares_a_pod_from_being_counted_again() -> None:
    ledger = ledger_with(*OFFERS)
    first = placed(ledger, asking(FIFTH, SLICES, reservation="r", pod="p"))
    again = placed(ledger, asking(FIFTH, SLICES, existing=first, reservation="s", pod="p"))
    assert (again.reservation, ledger.used_of(SLICES).slices) == ("r", 2)
    larger = asking(WHOLE, SLICES, existing=first, reservation="s", pod="p")
    assert isinstance(ledger.place(larger, 0.0), OverQuota)


def test_a_pod_over_its_quota_waits_at_the_gate_and_goes_when_there_is_room() -> None:
    ledger = ledger_with(*OFFERS)
    ledger.line.state = "open"
    ledger.set_pod(pod_of("first", WHOLE, Placement((), 0, ())))
    ask = asking(HALF, SLICES, reservation=UID, when_over_quota="wait")
    placement = placed(ledger, ask)
    assert placement.waits_for_quota
    ledger.set_pod(pod_of("second", HALF, placement, gated=True))
    assert (ledger.used_of(SLICES).slices, len(ledger.line), ledger.reservations) == (8, 1, 0)
    behind = placed(ledger, asking(FIFTH, SLICES, when_over_quota="wait"))
    assert behind.waits_for_quota, "no small pod passes it"
    ledger.remove_pod(("red", "first"))
    due = [pod.name for pod in ledger.line.due(lambda *_: (SLICES,), "policies") if pod is not None]
    assert due == ["second"]
