"""What the pods of a cluster use of their shares: now, by the agents' reports, and over weeks."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cluster.kube_client import ApiServer
from cluster.listing import list_all
from cluster.object_reader import ConfigMap
from controller.publish.gpu_ledger import gpu_ledgers, view_of
from controller.watch.gpu_node import gpu_nodes
from kube.names import USE_HISTORY_KEY
from ledger.use import PodUses
from ledger.use_history import OwnerHistory, OwnerUse
from ledger.view import LedgerView


async def read_uses(api: ApiServer) -> tuple[LedgerView, dict[str, PodUses]]:
    """Read the ledger, and what pods use by node.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: one of them could not be read.
    """
    views = map(view_of, await list_all(api, gpu_ledgers()))
    ledger = LedgerView(tuple(view for view in views if view is not None), ())
    return ledger, {report.node: report.use for report in await list_all(api, gpu_nodes())}


async def read_history(api: ApiServer, namespace: str, config_map: str) -> list[OwnerUse]:
    """Read what the controller has kept of the use by each queue and owner.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be read.
        msgspec.MsgspecError: it is of another release.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(config_map, safe='')}"
    data = msgspec.json.decode(await api.request("GET", path), type=ConfigMap).data or {}
    return list(OwnerHistory(data.get(USE_HISTORY_KEY, "")).owners.values())
