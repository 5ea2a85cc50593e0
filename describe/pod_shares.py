"""The pods of a namespace with their shares, for users who may read pods there, but no GpuLedgers."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from cluster.kube_client import ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from ledger.from_kubernetes import pod_from_object
from ledger.view import PodView, pending_view
from ledger.why import needs
from modes.claim_name import NamedShare
from modes.resource_names import ResourceNames


async def list_shares(api: ApiServer, names: ResourceNames, namespace: str) -> tuple[PodView, ...]:
    """Return the pods of a namespace that hold a share or wait for one, in the API server's order.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the pods cannot be listed.
        msgspec.MsgspecError: a pod cannot be read.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    reader = ObjectReader[Any, PodView | None](dict[str, Any], partial(_read, names=names), refuse)
    return tuple(filter(None, await list_all(api, Resource("pods", path, reader))))


def _read(pod: dict[str, Any], names: ResourceNames) -> PodView | None:
    fact = pod_from_object(pod, names)
    if fact.is_over or not (fact.slices or fact.claimed):
        return None
    share = needs(fact, names) if fact.slices else " and ".join(map(_claim, fact.claimed))
    is_ending = pod["metadata"].get("deletionTimestamp") is not None
    state = "Terminating" if is_ending else str((pod.get("status") or {}).get("phase", "Pending"))
    seen = pending_view(fact)
    amounts = seen.indices, seen.slices, seen.on_each
    return PodView(seen.namespace, seen.name, seen.kind, *amounts, fact.node, share, state)


def _claim(share: NamedShare) -> str:
    amount = f"{share.mib} MiB" if share.mib else f"{share.part[0]}/{share.part[1]}"
    return f"claim of {amount} of {'a card' if share.gpus == 1 else f'each of {share.gpus} cards'}"
