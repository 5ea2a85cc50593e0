"""Metrics of each GPU, and of each card of a DRA driver: on the leader, apart from the others, in parts.

There are two series per GPU of the cluster. Rendering those of 10,000 nodes in one step would delay
placements. Any client of the port can request them, so one rendering serves all requests within seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

from controller.watch.ledger_store import Clock, LedgerStore
from ledger.view import NodeView
from service.yielding import NODES_AT_ONCE

PATH = "/metrics/gpus"
NAME = "fraction_injector_gpu_slices"
HELP = "Slices of one GPU, or of the pool of a node, by state: allocated, or free for new pods."
KEPT_SECONDS = 3.0
"""Less than the usual interval between two scrapes."""
CARD_NAME = "fraction_injector_card_mib"
CARD_HELP = "MiB of one card that a DRA driver offers, by state: claimed, or free for new claims."
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class GpuMetrics:
    """The metric series of all GPUs."""

    def __init__(self, state: LedgerStore, leads: Callable[[], bool], clock: Clock = time.monotonic) -> None:
        self._state = state
        self._leads = leads
        self._clock = clock
        self._rendering = asyncio.Lock()
        self._kept = b""
        self._kept_until = 0.0

    async def text(self) -> bytes:
        """Return the series in Prometheus' text format; empty if this replica does not lead."""
        async with self._rendering:
            if not self._leads():
                self._kept = b""
                return _head(NAME, HELP)
            if not self._kept or self._clock() >= self._kept_until:
                self._kept = await self._rendered()
                self._kept_until = self._clock() + KEPT_SECONDS
            return self._kept

    async def _rendered(self) -> bytes:
        gpus, cards = [_head(NAME, HELP)], [_head(CARD_NAME, CARD_HELP)]
        async for names in self._state.yielding.batches(self._state.ledger.names(), NODES_AT_ONCE):
            views = [self._state.ledger.node(name) for name in names]
            nodes = [view for view in views if view is not None]
            gpus.append(_joined(nodes, _gpu_lines))
            cards.append(_joined(nodes, _card_lines))
        # The series of a metric are adjacent; without cards it is left out.
        return b"".join(gpus + cards if any(cards[1:]) else gpus)


def _head(name: str, text: str) -> bytes:
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()


def _joined(nodes: Iterable[NodeView], lines_of: Callable[[NodeView], Iterator[str]]) -> bytes:
    return "".join([line for node in nodes for line in lines_of(node)]).encode()


def _gpu_lines(node: NodeView) -> Iterator[str]:
    name = node.name.translate(_ESCAPES)
    for gpu in node.gpus:
        for state, slices in (("allocated", gpu.used), ("free", gpu.free)):
            yield f'{NAME}{{node="{name}",gpu="{gpu.name}",state="{state}"}} {slices}\n'


def _card_lines(node: NodeView) -> Iterator[str]:
    name = node.name.translate(_ESCAPES)
    for card in node.cards:
        device = card.device.translate(_ESCAPES)
        labels = f'node="{name}",driver="{card.driver}",card="{device}"'
        for state, mib in (("claimed", card.claimed_mib), ("free", card.free_mib)):
            yield f'{CARD_NAME}{{{labels},state="{state}"}} {mib}\n'
