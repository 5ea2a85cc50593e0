"""A waiting pod as the API server stores it now: whether it still waits, and which nodes it accepts."""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.kube_client import REQUEST_SECONDS, ApiServer
from kube.objects import PodClaim
from kube.other_constraints import ConstrainedSpec
from kube.scheduling import Constraints, Toleration
from modes.facts import PodKey


class NamedClaim(PodClaim, rename="camel", frozen=True, gc=False):
    """A claim of a pod, in its `spec` and in its `status`."""

    resource_claim_name: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Spec(ConstrainedSpec, rename="camel"):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: list[Any] | None = None
    resource_claims: list[NamedClaim] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    resource_claim_statuses: list[NamedClaim] | None = None


class StoredPod(msgspec.Struct):
    """The fields of a pod on its end, its nodes and its claims."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_ending(self) -> bool:
        """Whether somebody has deleted or evicted it already, or it has ended."""
        return self.metadata.deletion_timestamp is not None or self.status.phase in {"Succeeded", "Failed"}

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
    items: list[StoredPod]


_list = msgspec.json.Decoder(_List)


async def read_pod(
    api: ApiServer, key: PodKey, uid: str | None = None, *, seconds: float = REQUEST_SECONDS
) -> StoredPod | None:
    """Return a pod as it is stored; None if it is gone, or another pod has its name.

    Raises:
        ApiError, MsgspecError, OSError, TimeoutError, aiohttp.ClientError: it could not be read in `seconds`.
    """
    namespace, name = key
    # A list of one pod: controllers may list pods anyway, and need no further right.
    query = {"fieldSelector": f"metadata.name={name}"}
    data = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", query=query, seconds=seconds)
    found = next(iter(_list.decode(data).items), None)
    return found if found is not None and uid in {None, found.metadata.uid} else None
