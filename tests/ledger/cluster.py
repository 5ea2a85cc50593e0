"""Words of the tests: nodes with GPUs, holders, asks in eighths."""

from typing import Any

import msgspec

from ledger.from_kubernetes import pod_from_object
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, RequestedShare
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.resource_names import ResourceNames
from modes.units import POOL, Unit

GIB = 2**30


def gpu_node(name: str, count: int = 2, mib: int = 81920, **changes: object) -> NodeFact:
    labels = {"nvidia.com/gpu.memory": str(mib), "kubernetes.io/hostname": name}
    gpus = tuple((index, 8) for index in range(count))
    known = {"name": name, "labels": labels, "gpus": gpus, "slices_per_gpu": 8, "gpu_mib": mib}
    return NodeFact(**(known | changes))


def holder(
    name: str, node: str | None, *takes: tuple[Unit, int], pooled: int = 0, **changes: object
) -> PodFact:
    takes = (*takes, (POOL, pooled)) if pooled else takes
    return PodFact(**{"namespace": "default", "name": name, "node": node, "takes": takes, **changes})


def read_pod(requests: dict[str, str], containers: int = 1, **parts: Any) -> PodFact:
    """A pod as it is read from the API: fields of its metadata, its `spec` and its `status`."""
    spec, status = parts.pop("spec", {}), parts.pop("status", {})
    each = {"name": "main", "resources": {"requests": requests}}
    metadata = {"name": "p", "namespace": "red", **parts}
    spec = {"containers": [each] * containers, **spec}
    return pod_from_object({"metadata": metadata, "spec": spec, "status": status}, ResourceNames())


def request_of(fraction: Fraction, **fields: object) -> PlacementRequest:
    """A request with fields of any of its parts, by their names."""
    return changed(PlacementRequest(RequestedShare(fraction)), **fields)


def changed(request: PlacementRequest, **fields: object) -> PlacementRequest:
    """The same request with other fields in any of its parts."""
    parts = [
        msgspec.structs.replace(
            part, **{name: fields.pop(name) for name in part.__struct_fields__ if name in fields}
        )
        for part in (request.share, request.demands, request.accounting)
    ]
    assert not fields, f"a request has no {sorted(fields)}"
    return PlacementRequest(*parts)


def eighths(slices: int, **fields: object) -> PlacementRequest:
    return request_of(Fraction(slices, 8), **fields)


def ledger_of(*facts: NodeFact, holders: tuple[PodFact, ...] = ()) -> Ledger:
    ledger = Ledger()
    ledger.replace(facts, holders)
    return ledger


def placed(ledger: Ledger, request: PlacementRequest) -> Placement:
    """The placement of a request that must have one, now or later."""
    answer = ledger.place(request, 0.0)
    assert isinstance(answer, Placement), answer
    return answer
