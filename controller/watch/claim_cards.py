"""ResourceSlices as far as claims of shares need them: the cards that a DRA driver offers.

Texts come from drivers: the API server bounds them, and characters that cannot be printed are replaced.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectMetadata, ObjectReader, logged
from kube.dra import CAPACITIES, DRIVER, MEMORY_ATTRIBUTE
from kube.names import RESOURCE_SLICES_PATH
from kube.quantity import whole
from ledger.claimed_cards import ClaimableCard, OfferedSlice

MAX_CARD_MIB = 2**20
"""More than any card has: quotas count the largest one, and a template's name has room for 9 digits."""
_MIB = 1024 * 1024
_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
_UNREADABLE = logged("a ResourceSlice cannot be read and is ignored")


class _Amount(msgspec.Struct, gc=False):
    value: str


class _Attribute(msgspec.Struct, frozen=True, gc=False):
    string: str = ""
    number: int = msgspec.field(default=0, name="int")


_NONE = _Attribute()


class _Taint(msgspec.Struct, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class _Device(msgspec.Struct, rename="camel", gc=False):
    name: str
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Amount] | None = None
    allow_multiple_allocations: bool | None = None
    taints: list[_Taint] | None = None


class _Pool(msgspec.Struct, gc=False):
    name: str = ""
    generation: int = 1


class _Spec(msgspec.Struct, rename="camel", gc=False):
    driver: str
    node_name: str | None = None
    pool: _Pool = msgspec.field(default_factory=_Pool)
    devices: list[_Device] | None = None


class _ResourceSlice(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    spec: _Spec


def offered_slices(on_unreadable: Callable[[str, str], None] = _UNREADABLE) -> Resource[OfferedSlice]:
    """All ResourceSlices, in clusters that serve them; those of other drivers have no cards."""
    return Resource(
        "claimable cards",
        RESOURCE_SLICES_PATH,
        ObjectReader(_ResourceSlice, _seen, on_unreadable),
        is_optional=True,
    )


def _seen(found: _ResourceSlice) -> OfferedSlice:
    name, spec = found.metadata.name, found.spec
    if spec.driver not in CAPACITIES:
        return OfferedSlice(name, "")
    cards = [card for each in spec.devices or () if (card := _card(spec.driver, each)) is not None]
    pool = spec.pool
    return OfferedSlice(name, spec.driver, pool.name, spec.node_name or "", pool.generation, tuple(cards))


def _card(driver: str, device: _Device) -> ClaimableCard | None:
    """Return a whole card; None for MIG devices, and for devices of which claims cannot take a part."""
    attributes, capacity = device.attributes or {}, (device.capacity or {}).get(CAPACITIES[driver])
    if capacity is None or attributes.get("type", _NONE).string != "gpu":
        return None
    is_shares = driver == DRIVER
    mib = attributes.get(MEMORY_ATTRIBUTE, _NONE).number if is_shares else whole(capacity.value) // _MIB
    if not 0 <= mib <= MAX_CARD_MIB:
        raise ValueError(f"a card has {mib} MiB, not 0 to {MAX_CARD_MIB}")
    blocking = [taint for taint in device.taints or () if taint.effect in _BLOCKING]
    return ClaimableCard(
        device.name,
        mib,
        _shown(attributes.get("uuid", _NONE).string),
        _shown(attributes.get("productName", _NONE).string),
        device.allow_multiple_allocations is True,
        "=".join(filter(None, (blocking[0].key, blocking[0].value))) if blocking else "",
    )


def _shown(text: str) -> str:
    return text if text.isprintable() else "".join([each if each.isprintable() else "?" for each in text])
