"""What of a node is published, and what comes back when it is read."""

import dataclasses
import json

import msgspec
import pytest
import yaml

from controller.publish.gpu_ledger import (
    CardSums,
    Condition,
    GpuLedger,
    Metadata,
    status_manifest,
    status_of,
    view_of,
)
from kube.dra import DRIVER
from ledger.card_view import CardShare, CardView
from ledger.ledger import Ledger
from ledger.view import GpuView, Holding, NodeView, Unlisted
from modes.units import profile_of_resource
from testbed.controller_process import CRD
from tests.ledger.cluster import gpu_node, holder

NOW, LATER = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"
HOLDER = Holding("team", "a", "holder", 6, "gpu-half")
PROMISED = Holding("team", "b", "promised", 1)
CARD = CardView(
    node="gpu-0",
    driver=DRIVER,
    device="gpu-0",
    uuid="GPU-0",
    model="NVIDIA L4",
    taint="x/lost",
    memory_mib=24576,
    claimed_mib=1024,
    free_mib=0,
    claims=2,
    shares=(CardShare("team", "claim", "pod", 1000, "nightly"), CardShare("team", "other", "", 24)),
)
FREE = dataclasses.replace(CARD, device="gpu-1", taint="", claimed_mib=0, free_mib=24576, claims=0, shares=())


def view(*gpus, usable=True):
    gpus = tuple(dataclasses.replace(gpu, usable=usable) for gpu in gpus)
    return NodeView("gpu-0", usable, 8, 81920, "H100", gpus)


def test_totals_count_promises_as_used_and_leave_cordoned_gpus_out_of_what_is_free():
    gpus = (GpuView(0, 8, (HOLDER, PROMISED)), GpuView(1, 8, ()), GpuView(2, 8, (), cordoned=True))
    status = status_of(view(*gpus), 3, NOW, ())
    found = status.gpu_count, status.used, status.free, status.largest_free, status.over
    assert (status.lease_transition, found) == (3, (3, 7, 9, 8, 0))


def test_lost_capacity_is_over_commit_and_free_stays_honest():
    status = status_of(view(GpuView(0, 2, (HOLDER, PROMISED))), 0, NOW, ())
    assert (status.over, status.free, status.largest_free, status.gpus[0].free) == (4, 0, 0, 0)
    message = "pods hold 4 slices more than exist"
    assert status.conditions[1] == Condition("OverCommitted", "True", "CapacityLost", message, NOW)


def test_a_pool_counts_its_gpus_and_shows_no_index():
    status = status_of(view(GpuView(None, 16, (HOLDER,))), 0, NOW, ())
    assert (status.gpu_count, status.free, status.largest_free) == (2, 10, 8)
    assert "index" not in status_manifest("gpu-0", status)["status"]["gpus"][0]


def test_a_node_with_cards_only_has_their_sums_and_takes_claims():
    status = status_of(dataclasses.replace(view(), cards=(CARD, FREE)), 0, NOW, ())
    assert status.claimable == CardSums(2, 49152, 1024, 24576)
    assert (status.gpu_count, status.free) == (0, 0)
    assert status.conditions[2].reason == "Claimable"


def test_without_cards_nothing_is_written_of_them():
    written = status_manifest("gpu-0", status_of(view(GpuView(0, 8, ())), 0, NOW, ()))["status"]
    assert not {"cards", "claimable"} & written.keys()


def test_a_condition_keeps_its_time_until_it_changes():
    first = status_of(view(GpuView(0, 8, ())), 0, NOW, ())
    same = status_of(view(GpuView(0, 8, (HOLDER,))), 0, LATER, first.conditions)
    assert [c.last_transition_time for c in same.conditions] == [NOW, NOW, NOW]
    gone = status_of(view(GpuView(0, 8, ()), usable=False), 0, LATER, first.conditions)
    assert [(c.status, c.last_transition_time) for c in gone.conditions[:2]] == [
        ("False", LATER),
        ("False", NOW),
    ]


def test_what_is_written_reads_back_as_the_same_view():
    rest = Unlisted(9, 20, 18)
    gpus = (
        GpuView(0, 8, (HOLDER, PROMISED), unlisted=rest),
        GpuView(1, 8, (), cordoned=True),
        GpuView(None, 16, ()),
    )
    for usable in (True, False):
        original = dataclasses.replace(view(*gpus, usable=usable), unlisted=rest, cards=(CARD, FREE))
        stored = status_manifest("gpu-0", status_of(original, 1, NOW, ()))
        assert view_of(msgspec.convert(json.loads(json.dumps(stored)), GpuLedger)) == original


def test_sums_beyond_what_the_resource_can_hold_are_published_as_the_most_that_it_can():
    huge = [Holding("team", name, "holder", 9 * 10**18) for name in "ab"]
    rest = Unlisted(2, 18 * 10**18, 18 * 10**18)
    one_pod = GpuView(1, 8, (Holding("team", "c", "holder", 18 * 10**18),))
    pooled = GpuView(None, 8, (), unlisted=rest)
    original = view(GpuView(0, 8, tuple(huge)), one_pod, pooled)
    original = dataclasses.replace(original, unlisted=rest)
    status = status_of(original, 1, NOW, ())
    assert (status.used, status.over, status.gpus[0].used) == (2**63 - 1,) * 3
    numbers = list(integers_in(status_manifest("gpu-0", status)))
    assert len(numbers) > 20
    assert all(-(2**63) <= number < 2**63 for number in numbers)


def integers_in(content):
    if isinstance(content, dict | list | tuple):
        for each in content.values() if isinstance(content, dict) else content:
            yield from integers_in(each)
    elif isinstance(content, int):
        yield content


def test_nothing_was_published_yet():
    assert view_of(GpuLedger(Metadata("gpu-0"))) is None


def test_instances_are_published_by_profile_and_read_back():
    shown = view(GpuView(profile_of_resource("nvidia.com/mig-1g.10gb").number, 7, (HOLDER,)))
    status = status_of(shown, 0, NOW, ())
    assert [(gpu.index, gpu.profile, gpu.capacity) for gpu in status.gpus] == [(None, "1g.10gb", 7)]
    assert status.gpu_count == 0
    assert view_of(GpuLedger(Metadata("gpu-0"), status)).gpus == shown.gpus


def test_the_schema_knows_every_field_that_is_written():
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["status"]["properties"]
    rest = Unlisted(1, 1, 1)
    gpus = (
        GpuView(0, 8, (HOLDER,), memory_mib=1, unlisted=rest, model="A100"),
        GpuView(profile_of_resource("nvidia.com/mig-1g.10gb").number, 7, ()),
    )
    shown = dataclasses.replace(view(*gpus), unlisted=rest, cards=(CARD,))
    status = status_manifest("gpu-0", status_of(shown, 0, NOW, ()))["status"]
    assert status.keys() == known.keys()
    for described, written in ((known, status), (known["gpus"]["items"]["properties"], status["gpus"][0])):
        assert written["unlisted"].keys() == described["unlisted"]["properties"].keys()
    assert status["gpus"][0].keys() | status["gpus"][1].keys() == known["gpus"]["items"]["properties"].keys()
    shares = known["gpus"]["items"]["properties"]["shares"]["items"]["properties"]
    assert status["gpus"][0]["shares"][0].keys() == shares.keys()
    assert status["claimable"].keys() == known["claimable"]["properties"].keys()
    card = known["cards"]["items"]["properties"]
    assert status["cards"][0].keys() == card.keys()
    assert status["cards"][0]["shares"][0].keys() == card["shares"]["items"]["properties"].keys()
    assert status["conditions"][0].keys() == known["conditions"]["items"]["properties"].keys()


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({}, "Sliced", "fractions can be placed"),
        ({"gpu_mib": None}, "NoMemoryLabel", "label node gpu-0 nvidia.com/gpu.memory=<MiB of one GPU>"),
        (
            {"gpus": (GpuView(None, 8, ()),), "slices_per_gpu": 1},
            "WholeGpus",
            "GPUs are offered whole: divide",
        ),
        ({"gpus": (GpuView(None, 8, ()),)}, "Sliced", "fractions can be placed"),
    ],
)
def test_a_node_that_takes_no_fractions_says_what_it_lacks_and_what_to_run(change, reason, message):
    node = dataclasses.replace(view(GpuView(0, 8, ())), **change)
    condition = status_of(node, 0, NOW, ()).conditions[2]
    assert (condition.type, condition.status) == ("TakesFractions", str(reason == "Sliced"))
    assert condition.reason == reason
    assert message in condition.message


@pytest.mark.parametrize("gpus", [1, 8, 64])
def test_pods_that_pile_up_on_a_dead_node_make_no_object_that_the_api_server_would_refuse(gpus):
    fact = gpu_node("n" * 253, gpus, usable=False)
    ledger = Ledger()
    ledger.set_node(fact)
    for number in range(10_000):
        name = f"{number:05}".ljust(253, "p")
        changes = {"namespace": "n" * 63, "queues": ("q" * 63,)}
        # Some also name GPUs that the node does not have.
        held = (number % gpus, 8), (64 + number % 900, 1)
        ledger.set_pod(holder(name, fact.name, *held, **changes))
    status = status_of(ledger.node(fact.name), 1, NOW, ())
    assert len(json.dumps(status_manifest(fact.name, status))) < 2**19
    assert (status.used, status.over) == (90_000, 90_000 - 8 * gpus)
    assert view_of(GpuLedger(Metadata(fact.name), status)) == ledger.node(fact.name)
