"""The messages between webhooks and controllers."""

import msgspec

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.messages import read_request, write_request
from ledger.placement_request import Placement, Quota
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from modes.instance import Instance
from tests.ledger.cluster import request_of

EXISTING = Placement((0,), 40960, ("40960",), "gpu-1", "uid-0", instance=Instance(21020, 1, 9728, ("A100",)))
EXISTING = msgspec.structs.replace(EXISTING, indices=EXISTING.instance.indices)
REQUEST = request_of(
    Fraction(2, 8, mib=3072, split=(1, 1), split_mib=(2048, 1024)),
    mode="mig",
    queues=("q", "#id-1"),
    constraints=Constraints({"zone": "a"}, (NodeSelectorTerm((Requirement("zone", "In", ("a", "b")),)),)),
    quotas=(Quota("queue", "q", 4, 2, ("q", "#id-1"), ("team",), ("other",), 9000),),
    existing=EXISTING,
    kinds=GpuKinds(("A100*",), 40000),
    prefer=("mig", "per-gpu"),
)
WRITTEN = write_request(REQUEST)
HALF = b'{"share":{"fraction":{"slices":4,"slices_per_gpu":8}%b},"demands":{%b},"accounting":{%b}}'


def test_a_request_is_read_as_it_was_written() -> None:
    assert read_request(msgspec.Raw(WRITTEN)) == REQUEST
    assert read_request(msgspec.Raw(HALF % (b"", b"", b""))) == request_of(Fraction(4, 8))


def test_fields_of_a_newer_webhook_are_ignored() -> None:
    newer = msgspec.json.decode(WRITTEN)
    for part in (newer, *list(newer.values()), newer["demands"]["existing"]):
        part["of_a_newer_release"] = [1]
    assert read_request(msgspec.Raw(msgspec.json.encode(newer))) == REQUEST
