"""The wire between webhooks and controllers: replicas of other releases read and write the same."""

import msgspec
import pytest

from kube.dra import ClaimNames
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Toleration
from ledger.messages import read_request, write_request
from ledger.placement_request import Assumption, Placement, Quota
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from modes.instance import Instance
from tests.ledger.cluster import request_of

INSTANCE = Instance(21020, 1, 9728, ("A100",))
EXISTING = Placement(
    (21020,),
    40960,
    ("40960",),
    "gpu-1",
    "uid-0",
    "A100",
    4,
    ("A100",),
    ("gpu-1",),
    ("gpu-2",),
    ("81920",),
    degraded=True,
    containers=(0,),
    instance=INSTANCE,
    passed_over="because",
)
REQUEST = request_of(
    Fraction(2, 8, mib=3072, split=(1, 1), split_mib=(2048, 1024)),
    mode="mig",
    namespace="team",
    queues=("q", "#id-1"),
    constraints=Constraints(
        {"zone": "a"},
        (NodeSelectorTerm((Requirement("zone", "In", ("a", "b")),)),),
        (Toleration("k", "Exists"),),
        "gpu-1",
    ),
    cpu_milli=500,
    memory_bytes=1024,
    assume=Assumption(2, 40960),
    quotas=(Quota("queue", "q", 4, 2, ("q", "#id-1"), ("team",), ("other",), 9000),),
    quotas_when_degraded="admit",
    reservation="uid-1",
    existing=EXISTING,
    pod="digest",
    owner="owner",
    place="spread",
    same_model=True,
    writes_limits=False,
    kinds=GpuKinds(("A100*",), 40000),
    any_gpu=True,
    resource="nvidia.com/mig-1g.10gb",
    oversized="take",
    prefer=("mig", "per-gpu"),
    instance=INSTANCE,
    reserve_mib=128,
)
AS_WRITTEN_BEFORE = (
    b'{"fraction":{"slices":2,"slices_per_gpu":8,"parts":1,"exact":null,"mib":3072,"split":[1,1],'
    b'"split_mib":[2048,1024],"is_apart":false},"mode":"mig","namespace":"team","queues":["q","#id-1"],'
    b'"constraints":{"node_selector":{"zone":"a"},"required_terms":[{"matchExpressions":[{"key":"zone",'
    b'"operator":"In","values":["a","b"]}],"matchFields":null}],"tolerations":[{"key":"k",'
    b'"operator":"Exists","value":null,"effect":null}],"node_name":"gpu-1"},"cpu_milli":500,'
    b'"memory_bytes":1024,"assume":{"gpus_per_node":2,"gpu_mib":40960},"quotas":[{"scope":"queue",'
    b'"name":"q","slices":4,"max_pods":2,"keys":["q","#id-1"],"namespaces":["team"],'
    b'"other_namespaces":["other"],"memory_mib":9000}],"quotas_when_degraded":"admit",'
    b'"reservation":"uid-1","keeps":{"indices":[21020],"gpu_mib":40960,"memory_values":["40960"],'
    b'"node":"gpu-1","reservation":"uid-0","model":"A100","slices":4,"models":["A100"],'
    b'"hosts":["gpu-1"],"other_hosts":["gpu-2"],"other_memory_values":["81920"],"degraded":true,'
    b'"containers":[0],"instance":{"number":21020,"eighths":1,"mib":9728,"products":["A100"],'
    b'"is_pool":false,"is_more_than_twice":false},"passed_over":"because"},"pod":"digest",'
    b'"owner":"owner","place":"spread","same_model":true,"writes_limits":false,'
    b'"kinds":{"models":["A100*"],"min_mib":40000},"any_gpu":true,"resource":"nvidia.com/mig-1g.10gb",'
    b'"oversized":"take","prefer":["mig","per-gpu"],"instance":{"number":21020,"eighths":1,"mib":9728,'
    b'"products":["A100"],"is_pool":false,"is_more_than_twice":false},"reserve_mib":128}'
)
"""What the release before the request had parts wrote of `REQUEST`."""
NEWER = (
    "when_over_quota",
    "is_gated",
    "waits_when_degraded",
    "waits_for_quota",
    "driver",
    "cards",
    "claim_names",
    "pool",
)
"""Fields that it did not write; it ignored them."""
LEAST = b'{"fraction":{"slices":4,"slices_per_gpu":8}}'
"""What a webhook may write that knows no other field."""


def test_a_request_of_an_older_webhook_is_read() -> None:
    assert read_request(msgspec.Raw(AS_WRITTEN_BEFORE)) == REQUEST
    assert read_request(msgspec.Raw(LEAST)) == request_of(Fraction(4, 8))


def test_an_older_controller_reads_a_request_as_it_always_did() -> None:
    before, now = msgspec.json.decode(AS_WRITTEN_BEFORE), msgspec.json.decode(write_request(REQUEST))
    for part in (now, now["keeps"]):
        for field in NEWER:
            part.pop(field, None)
    assert now == before


def test_fields_of_a_newer_webhook_are_ignored() -> None:
    newer = AS_WRITTEN_BEFORE[:-1] + b',"of_a_newer_release":[1]}'
    assert read_request(msgspec.Raw(newer)) == REQUEST


@pytest.mark.parametrize(
    "wrong", [b'"cpu_milli":-1', b'"mode":"x"', b'"pod":1', b'"prefer":["mig","mig","mig"]', b'"keeps":{}']
)
def test_every_part_of_a_request_is_checked_where_it_is_read(wrong: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match=wrong.partition(b":")[0].strip(b'"').decode()):
        read_request(msgspec.Raw(LEAST[:-1] + b"," + wrong + b"}"))


NAMES = ClaimNames("cards.example.com", "vram", "model", "serial")


def test_a_custom_driver_reaches_the_controller():
    request = request_of(Fraction(4, 8), mode="dra", driver="gpu.example.com", claim_names=NAMES)
    assert read_request(msgspec.Raw(write_request(request))) == request


@pytest.mark.parametrize(
    "changed",
    [
        {"driver": "gpu.example.com'"},
        {"driver": "a" * 64},
        {"claim_names": ClaimNames("")},
        {"claim_names": ClaimNames("a" * 254)},
        {"claim_names": ClaimNames("a", "in")},
        {"claim_names": ClaimNames("a", product_name="x y")},
        {"claim_names": ClaimNames("a", uuid="a" * 33)},
    ],
)
def test_a_name_that_cel_would_not_read_as_one_is_refused(changed):
    request = request_of(Fraction(4, 8), mode="dra", **{"driver": "gpu.example.com", **changed})
    with pytest.raises(ValueError, match="Expected `str`"):
        read_request(msgspec.Raw(write_request(request)))
