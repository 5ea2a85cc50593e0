"""What the pods of a cluster use of their shares, by GpuLedgers and GpuNodes."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.kube_client import ApiServer
from cluster.listing import list_all
from controller.publish.gpu_ledger import gpu_ledgers, view_of
from controller.watch.gpu_node import gpu_nodes
from ledger.use import PodUses, UsedShare, shares_in_use
from ledger.view import LedgerView

Uses = Mapping[str, PodUses]
"""What pods use, by node."""


async def read_uses(api: ApiServer) -> tuple[LedgerView, Uses]:
    """Read the ledger, and what pods use.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: one of them could not be read.
    """
    views = map(view_of, await list_all(api, gpu_ledgers()))
    ledger = LedgerView(tuple(view for view in views if view is not None), ())
    return ledger, {report.node: report.use for report in await list_all(api, gpu_nodes())}


def held_shares(view: LedgerView, uses: Uses) -> list[UsedShare]:
    """Return the shares of bound pods by node, GPU and pod."""
    return [each for node in view.nodes for each in shares_in_use(node, uses.get(node.name, PodUses()))]
