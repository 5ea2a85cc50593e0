"""ResourceSlices as far as claims need them: how many cards of which size a DRA driver offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectReader
from controller.watch.resource_slice import PAGE
from kube.dra import DRIVER, NVIDIA_DRIVER
from kube.names import RESOURCE_SLICES_PATH
from kube.quantity import whole
from service.log import get_logger

_MIB = 1024 * 1024
_DRIVERS = frozenset({DRIVER, NVIDIA_DRIVER})
_log = get_logger("watch")


class OfferedSlice(msgspec.Struct, frozen=True, gc=False):
    """The part of a ResourceSlice that claims of shares need."""

    name: str
    driver: str
    cards: Mapping[int, int]
    """Number of cards that several claims may share, by their MiB."""


class _Amount(msgspec.Struct, gc=False):
    value: str


class _Capacity(msgspec.Struct, gc=False):
    memory: _Amount | None = None


class _Device(msgspec.Struct, rename="camel", gc=False):
    capacity: _Capacity | None = None
    allow_multiple_allocations: bool = False


class _Spec(msgspec.Struct, gc=False):
    driver: str
    devices: list[_Device] | None = None


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_version: str = ""


class _ResourceSlice(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: _Spec


def offered_slices() -> Resource[OfferedSlice]:
    """All ResourceSlices, in clusters that serve them; those of other drivers have no cards."""
    return Resource(
        "claimable cards",
        RESOURCE_SLICES_PATH,
        ObjectReader(_ResourceSlice, _seen, _log_unreadable),
        page=PAGE,
        is_optional=True,
    )


def _seen(found: _ResourceSlice) -> OfferedSlice:
    cards: Counter[int] = Counter()
    for device in found.spec.devices or () if found.spec.driver in _DRIVERS else ():
        memory = device.capacity.memory if device.capacity is not None else None
        if device.allow_multiple_allocations and memory is not None:
            cards[whole(memory.value) // _MIB] += 1
    return OfferedSlice(found.metadata.name, found.spec.driver, cards)


def _log_unreadable(name: str, reason: str) -> None:
    _log.error("a ResourceSlice cannot be read and is ignored", name=name, error=reason)
