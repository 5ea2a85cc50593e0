"""ResourceSlices of a DRA driver for GPUs, as the controller reads them: the cards of a node that it offers.

Attributes of devices are those of NVIDIA's driver: `type`, `uuid` of a card, and `parentUUID` of a MIG
device's card. The `uuid` of a device for passthrough is made of its PCI address, and does not name a card.
"""

from __future__ import annotations

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectReader
from kube.names import RESOURCE_SLICES_PATH
from service.log import get_logger

MAX_CARDS = 64
"""Cards of one ResourceSlice or one GpuNode."""
MAX_UUID = 64
"""Characters, as Kubernetes allows in an attribute."""
_log = get_logger("watch")


class DraSlice(msgspec.Struct, frozen=True, gc=False):
    """The part of a ResourceSlice that the controller needs."""

    name: str
    node: str = ""
    """Empty if its devices do not belong to a single node, or if another driver wrote it."""
    cards: tuple[str, ...] = ()
    """UUIDs of the cards of its devices, sorted."""
    names_cards: bool = True
    """Whether the card of each device is known."""

    @property
    def offers(self) -> bool:
        """Whether it offers any device of a node."""
        return bool(self.node and (self.cards or not self.names_cards))


class _Text(msgspec.Struct, frozen=True, gc=False):
    string: str = ""


class _Attributes(msgspec.Struct, gc=False):
    type: _Text = _Text()
    uuid: _Text = _Text()
    parent: _Text = msgspec.field(default=_Text(), name="parentUUID")


class _Device(msgspec.Struct, gc=False):
    attributes: _Attributes | None = None


class _Spec(msgspec.Struct, gc=False):
    driver: str
    node_name: str = msgspec.field(default="", name="nodeName")
    devices: list[_Device] | None = None


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_version: str = ""


class _ResourceSlice(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: _Spec


def resource_slices(driver: str) -> Resource[DraSlice]:
    """All ResourceSlices of one driver, in clusters that serve them."""

    def seen(found: _ResourceSlice) -> DraSlice:
        return _seen(found) if found.spec.driver == driver else DraSlice(found.metadata.name)

    return Resource(
        "resourceslices",
        RESOURCE_SLICES_PATH,
        ObjectReader(_ResourceSlice, seen, _log_unreadable),
        fields={"fieldSelector": f"spec.driver={driver}"},
        is_optional=True,
    )


def _seen(found: _ResourceSlice) -> DraSlice:
    spec, name = found.spec, found.metadata.name
    cards = {_card(device.attributes or _Attributes()) for device in spec.devices or ()}
    if "" in cards or len(cards) > MAX_CARDS:
        return DraSlice(name, spec.node_name, names_cards=False)
    return DraSlice(name, spec.node_name, tuple(sorted(cards)))


def _card(attributes: _Attributes) -> str:
    """Return the UUID of a device's card; empty if unknown."""
    sources = {"gpu": attributes.uuid, "mig": attributes.parent}
    source = sources.get(attributes.type.string)
    return source.string if source is not None and len(source.string) <= MAX_UUID else ""


def _log_unreadable(name: str, reason: str) -> None:
    _log.error("a ResourceSlice cannot be read and is ignored", name=name, error=reason)
