"""A waiting pod as the API server stores it now: whether it still waits, and which nodes it accepts."""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.kube_client import REQUEST_SECONDS, ApiServer
from kube.objects import Affinity
from kube.scheduling import Constraints, Toleration
from modes.facts import PodKey


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: list[Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"


class StoredPod(msgspec.Struct):
    """The fields of a pod on its end and its nodes."""

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
