"""A waiting pod as the API server stores it now: whether it may be deleted, and which nodes it accepts."""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.kube_client import REQUEST_SECONDS, ApiServer
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.objects import Affinity
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Toleration
from ledger.placement_request import Accounting, Demands, PlacementRequest, RequestedShare
from modes.facts import PodFact, PodKey
from modes.fraction import Fraction


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: list[Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    nominated_node_name: str | None = None


class StoredPod(msgspec.Struct):
    """The fields of a pod on its deletion and its nodes."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_deletable(self) -> bool:
        """Whether a deletion loses nothing: the pod was never bound, and no node was made free for it.

        Finalizers would keep the pod, and its use of a quota.
        """
        metadata, spec, status = self.metadata, self.spec, self.status
        in_the_way = metadata.deletion_timestamp or metadata.finalizers or spec.scheduling_gates
        return not (in_the_way or spec.node_name or status.nominated_node_name) and status.phase == "Pending"

    @property
    def is_ending(self) -> bool:
        """Whether somebody has deleted or evicted it already, or it has ended."""
        return self.metadata.deletion_timestamp is not None or self.status.phase in {"Succeeded", "Failed"}

    @property
    def preconditions(self) -> dict[str, str]:
        """Preconditions so that only this version of the pod is deleted: a binding would change it."""
        return {"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version}

    @property
    def constraints(self) -> Constraints:
        """The pod's demands on its node."""
        spec = self.spec
        affinity = spec.affinity.node_affinity if spec.affinity else None
        terms = affinity.required.node_selector_terms if affinity and affinity.required else None
        return Constraints(
            node_selector=spec.node_selector or {},
            required_terms=tuple(terms) if terms is not None else None,
            tolerations=spec.tolerations or (),
        )


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


_list = msgspec.json.Decoder(_List)
_pod = msgspec.json.Decoder(StoredPod)


async def read_pod(
    api: ApiServer, key: PodKey, uid: str | None = None, *, seconds: float = REQUEST_SECONDS
) -> StoredPod | None:
    """Return a pod as it is stored; None if it is gone, or another pod has its name.

    Raises:
        ApiError, MsgspecError, OSError, TimeoutError, aiohttp.ClientError: it could not be read in `seconds`.
    """
    found = await read_pod_json(api, key, uid, seconds=seconds)
    return found[0] if found is not None else None


async def read_pod_json(
    api: ApiServer, key: PodKey, uid: str | None = None, *, seconds: float = REQUEST_SECONDS
) -> tuple[StoredPod, bytes] | None:
    """Return a pod as `read_pod` does, and its JSON.

    Raises:
        ApiError, MsgspecError, OSError, TimeoutError, aiohttp.ClientError: it could not be read in `seconds`.
    """
    namespace, name = key
    # A list of one pod: controllers may list pods anyway, and need no further right.
    query = {"fieldSelector": f"metadata.name={name}"}
    data = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", query=query, seconds=seconds)
    raw = next(iter(_list.decode(data).items), None)
    if raw is None:
        return None
    found = _pod.decode(raw)
    return (found, bytes(raw)) if uid in {None, found.metadata.uid} else None


def known_constraints(fact: PodFact) -> Constraints:
    """Return the demands of a pod that the ledger knows: memory and model of its GPUs."""
    demands = {GPU_MEMORY_LABEL: fact.memory_values, GPU_PRODUCT_LABEL: (fact.model,) if fact.model else None}
    expressions = [Requirement(label, "In", values) for label, values in demands.items() if values]
    if not expressions:
        return Constraints()
    return Constraints(required_terms=(NodeSelectorTerm(match_expressions=tuple(expressions)),))


def dry_run(fact: PodFact, slices_per_gpu: int, constraints: Constraints) -> PlacementRequest | None:
    """Return a pod's placement request without a reservation; None for amounts that no label gives."""
    try:
        fraction = _fraction_of(fact, slices_per_gpu)
    except ValueError:
        return None
    if not fraction.is_apart and (
        fraction.gpus != len(fact.gpus) or {*_amounts(fact)} != {fraction.slices_on_each}
    ):
        return None
    return PlacementRequest(
        RequestedShare(fraction, cpu_milli=fact.cpu_milli, memory_bytes=fact.memory_bytes),
        Demands(constraints=constraints),
        Accounting(namespace=fact.namespace),
    )


def _fraction_of(fact: PodFact, slices_per_gpu: int) -> Fraction:
    """Return the fraction that a pod requests; raises ValueError for amounts that no label gives."""
    amounts, gpus = _amounts(fact), len(fact.gpus)
    if len({*amounts}) > 1:
        # Containers on different GPUs; containers on the same GPU are merged.
        return Fraction(sum(amounts), slices_per_gpu, split=amounts, is_apart=True)
    if gpus > 1 and fact.slices < gpus * slices_per_gpu:
        return Fraction(fact.slices, slices_per_gpu, gpus)
    return Fraction(fact.slices, slices_per_gpu)


def _amounts(fact: PodFact) -> tuple[int, ...]:
    return tuple([slices for _, slices in fact.gpus])
