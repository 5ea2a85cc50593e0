"""The whole ledger for whoever wants to see it, a few nodes in each step of the event loop.

Each node is as it was when its turn came: a pod that is bound meanwhile may be shown on its node and among
those that wait, or in neither place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from controller.ledger_store import State
from controller.turns import NODES_AT_ONCE
from ledger.view import NodeView, Waiting

_encode = msgspec.json.Encoder().encode


async def node_views(state: State) -> AsyncIterator[list[NodeView]]:
    """All nodes with GPUs, by name."""
    async for names in state.turns.slices(state.ledger.names(), NODES_AT_ONCE):
        views = [state.ledger.node(name) for name in names]
        yield [view for view in views if view is not None]


async def waiting_views(state: State) -> AsyncIterator[tuple[Waiting, ...]]:
    """Who waits, by namespace and name."""
    async for keys in state.turns.slices(state.ledger.waiting_keys()):
        yield state.ledger.waiting_of(keys)


async def ledger_json(state: State, leader: str | None, transition: int) -> AsyncIterator[bytes]:
    """A `ledger.messages.LedgerReply` in parts."""
    yield b'{"ledger":{"nodes":['
    async for part in _joined(node_views(state)):
        yield part
    yield b'],"backlog":['
    async for part in _joined(waiting_views(state)):
        yield part
    yield b']},"leader":%b,"lease_transition":%b}' % (_encode(leader), _encode(transition))


async def backlog_json(state: State) -> bytes:
    """A `ledger.messages.StreamEvent` of who waits."""
    return b'{"backlog":[%b]}' % b"".join([part async for part in _joined(waiting_views(state))])


async def _joined(parts: AsyncIterator[Sequence[NodeView | Waiting]]) -> AsyncIterator[bytes]:
    """The items of all parts as JSON, with commas and without brackets."""
    comma = b""
    async for part in parts:
        if part:
            yield comma + _encode(part)[1:-1]
            comma = b","
