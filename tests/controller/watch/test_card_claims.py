"""What ResourceClaims hold of cards, as the scheduler writes it."""

import pytest

from controller.watch.card_claims import card_claims
from kube.dra import DRIVER, NVIDIA_DRIVER, SHARES_OF_CARD
from ledger.claimed_cards import CardClaim, CardKey, ClaimedPart
from tests.cluster.objects import read_object


def result(device="gpu-0", memory="40Gi", **more):
    consumed = {"consumedCapacity": {"memory": memory}} if memory is not None else {}
    found = {"request": "gpu/m81920", "driver": NVIDIA_DRIVER, "pool": "node-1", "device": device}
    return found | consumed | more


def claim(*results, name="c", **status):
    allocation = {"devices": {"results": list(results)}} if results else None
    pod = {"resource": "pods", "name": "pod-1", "uid": "u"}
    status = {"allocation": allocation, "reservedFor": [pod]} | status
    return {"metadata": {"name": name, "namespace": "team", "resourceVersion": "7"}, "status": status}


def read(found):
    return read_object(card_claims(), found)


def part(device, mib=0, share=0, driver=NVIDIA_DRIVER):
    return ClaimedPart(CardKey(driver, "node-1", device), mib, share, "gpu/m81920")


def test_parts_and_whole_cards():
    found = read(claim(result(), result("gpu-1", None), result("gpu-2", "1431Mi", shareID="s")))
    assert found == CardClaim(
        "team", "c", "pod-1", (part("gpu-0", 40960), part("gpu-1", share=SHARES_OF_CARD), part("gpu-2", 1431))
    )


def test_of_the_agents_driver_a_claim_holds_a_share_of_the_card():
    held = result(driver=DRIVER, consumedCapacity={"share": "125k"})
    found = read(claim(held, result("gpu-1", driver=DRIVER, consumedCapacity=None))).parts
    assert found == (
        part("gpu-0", share=125_000, driver=DRIVER),
        part("gpu-1", share=SHARES_OF_CARD, driver=DRIVER),
    )
    assert [each.mib_of(81559) for each in found] == [10194, 81559]


@pytest.mark.parametrize(("memory", "mib"), [("1500000000", 1431), ("9E", 2**20)])
def test_a_begun_mib_is_taken_and_more_than_any_card_has_is_cut(memory, mib):
    assert read(claim(result(memory=memory))).parts == (part("gpu-0", mib),)


@pytest.mark.parametrize(
    "found",
    [
        claim(),
        {"metadata": {"name": "c", "namespace": "team"}},
        claim(allocation={"devices": {}}),
        claim(result(driver="other.example.com")),
        claim(result(adminAccess=True)),
    ],
    ids=["not allocated", "no status", "no devices", "another driver", "admin access"],
)
def test_claims_that_hold_nothing(found):
    assert read(found).parts == ()


def test_only_pods_reserve_and_the_first_is_shown():
    consumers = [{"resource": "other", "name": "x"}, {"resource": "pods", "name": "p"}, {"resource": "pods"}]
    assert read(claim(result(), reservedFor=consumers)).pod == "p"
    assert not read(claim(result(), reservedFor=None)).pod


@pytest.mark.parametrize("amount", ["-1Gi", "much"])
def test_one_with_an_amount_that_is_none_is_not_read(amount):
    assert read(claim(result(memory=amount))) is None
