"""The whole ledger for viewers, a few nodes in each step of the event loop.

Each node is shown at the time of its step: a pod that is bound meanwhile may appear both on its node and as
pending, or nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from controller.watch.ledger_store import LedgerStore
from ledger.view import NodeView
from service.yielding import NODES_AT_ONCE

_encode = msgspec.json.Encoder().encode


async def node_views(state: LedgerStore) -> AsyncIterator[list[NodeView]]:
    """All nodes with GPUs, by name."""
    async for names in state.yielding.batches(state.ledger.names(), NODES_AT_ONCE):
        views = [state.ledger.node(name) for name in names]
        yield [view for view in views if view is not None]


async def backlog_json(state: LedgerStore) -> bytes:
    """A `ledger.messages.StreamEvent` with the backlog, by namespace and name."""
    parts = list[bytes]()
    async for keys in state.yielding.batches(state.ledger.pending_keys()):
        if waiting := state.ledger.pending_of(keys):
            parts.append(_encode(waiting)[1:-1])
    return b'{"backlog":[%b]}' % b",".join(parts)
