"""The custom resource GpuNode, as the controller reads it: each card's memory, by the node's own agent."""

from __future__ import annotations

from typing import Annotated

import msgspec

from controller.informer import Resource
from controller.object_reader import ObjectReader
from kube.names import GROUP
from service.log import get_logger

COLLECTION = f"/apis/{GROUP}/v1alpha1/gpunodes"
MAX_CARDS = 64
_Mib = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
_Index = Annotated[int, msgspec.Meta(ge=0, le=999)]
_log = get_logger("watch")


class NodeCards(msgspec.Struct, frozen=True, gc=False):
    """What an agent says of its node's GPUs, as far as the ledger needs it."""

    node: str
    cards: tuple[tuple[int, int], ...]
    """(index, MiB) of each GPU that can be shared, by index."""


class _Card(msgspec.Struct, gc=False):
    index: _Index
    memory_mib: _Mib = msgspec.field(name="memoryMiB")
    mig: bool = False


class _Status(msgspec.Struct, gc=False):
    gpus: Annotated[list[_Card], msgspec.Meta(max_length=MAX_CARDS)] = []


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_version: str = ""


class _GpuNode(msgspec.Struct, gc=False):
    metadata: _Metadata
    status: _Status | None = None


def gpu_nodes() -> Resource[NodeCards]:
    """All GpuNodes. Of one that cannot be read nothing is known: the node's labels count again."""
    return Resource("gpunodes", COLLECTION, ObjectReader(_GpuNode, _cards, _log_unreadable))


def _cards(found: _GpuNode) -> NodeCards:
    """Return the cards of a node.

    Raises:
        ValueError: two cards have one index.
    """
    shared = [card for card in (found.status.gpus if found.status else ()) if not card.mig]
    cards = {card.index: card.memory_mib for card in shared}
    if len(cards) < len(shared):
        raise ValueError("two GPUs have one index")
    return NodeCards(found.metadata.name, tuple(sorted(cards.items())))


def _log_unreadable(name: str, reason: str) -> None:
    _log.error("a GpuNode cannot be read: the node's labels count", name=name, error=reason)
