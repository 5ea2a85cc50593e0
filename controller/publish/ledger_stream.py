"""The whole ledger for viewers, a few nodes in each step of the event loop.

Each node is shown at the time of its step: a pod that is bound meanwhile may appear both on its node and as
pending, or nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from controller.watch.ledger_store import LedgerStore
from ledger.view import NodeView, PendingView
from service.yielding import NODES_AT_ONCE

_encode = msgspec.json.Encoder().encode


async def node_views(state: LedgerStore) -> AsyncIterator[list[NodeView]]:
    """All nodes with GPUs, by name."""
    async for names in state.yielding.batches(state.ledger.names(), NODES_AT_ONCE):
        views = [state.ledger.node(name) for name in names]
        yield [view for view in views if view is not None]


async def waiting_views(state: LedgerStore) -> AsyncIterator[tuple[PendingView, ...]]:
    """Pending pods and reservations, by namespace and name."""
    async for keys in state.yielding.batches(state.ledger.pending_keys()):
        yield state.ledger.pending_of(keys)


async def ledger_json(state: LedgerStore, leader: str | None, transition: int) -> AsyncIterator[bytes]:
    """A `ledger.messages.LedgerReply` in parts."""
    yield b'{"ledger":{"nodes":['
    async for part in _joined(node_views(state)):
        yield part
    yield b'],"backlog":['
    async for part in _joined(waiting_views(state)):
        yield part
    yield b']},"leader":%b,"lease_transition":%b}' % (_encode(leader), _encode(transition))


async def backlog_json(state: LedgerStore) -> bytes:
    """A `ledger.messages.StreamEvent` with the backlog."""
    return b'{"backlog":[%b]}' % b"".join([part async for part in _joined(waiting_views(state))])


async def _joined(parts: AsyncIterator[Sequence[NodeView | PendingView]]) -> AsyncIterator[bytes]:
    """The items of all parts as JSON, with commas but without brackets."""
    comma = b""
    async for part in parts:
        if part:
            yield comma + _encode(part)[1:-1]
            comma = b","
