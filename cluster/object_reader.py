"""Reads list pages and watch events of one resource.

The objects of a page are decoded one by one: one that is unreadable does not hide the others, and other tasks
can run between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from cluster.watched_resource import ObjectKey
from kube.objects import ListMeta
from service.log import get_logger

Object = TypeVar("Object")
Item = TypeVar("Item")


class StaleError(Exception):
    """A watch cannot continue from its version: list again."""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[Item]):
    """One line of a watch."""

    type: str
    resource_version: str
    key: ObjectKey
    item: Item | None
    """None for a bookmark or a deleted object, and for an unreadable one."""


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class ObjectMetadata(msgspec.Struct, rename="camel", gc=False):
    """What says which object it is, and in which version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace, self.name


class StoredObject(msgspec.Struct):
    """Any object, of which only the metadata matter."""

    metadata: ObjectMetadata


class ConfigMap(msgspec.Struct):
    """A ConfigMap."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    data: dict[str, str] | None = None


class _Status(msgspec.Struct):
    message: str = ""


_event = msgspec.json.Decoder(_Event)
_list = msgspec.json.Decoder(_List)
_named = msgspec.json.Decoder(StoredObject)


def logged(message: str) -> Callable[[str, str], None]:
    """Return what logs the name of an unreadable object, and the reason."""
    log = get_logger("watch")
    return lambda name, reason: log.error(message, name=name, error=reason)


def refuse(name: str, why: str) -> None:
    """Reject the whole page of an unreadable object, for callers that need every object.

    Raises:
        msgspec.ValidationError: always.
    """
    raise msgspec.ValidationError(f"{name}: {why}")


class ObjectReader(Generic[Object, Item]):
    """Decodes the JSON of one resource to items."""

    def __init__(
        self, struct: Any, item_of: Callable[[Object], Item], on_unreadable: Callable[[str, str], None]
    ) -> None:
        """Decode objects as `struct`, whose metadata has a name and a resource version.

        `item_of` may raise ValueError; `on_unreadable` gets the name of an unreadable object, and the reason.
        """
        self._object = msgspec.json.Decoder(struct)
        self._item_of = item_of
        self._on_unreadable = on_unreadable

    def read_list(self, data: bytes) -> tuple[Iterator[Item], ListMeta]:
        """Return items and metadata of one page; unreadable objects are left out.

        Each item is decoded when the iterator yields it.

        Raises:
            ValueError: it is not a list.
        """
        page = _list.decode(data)
        found = map(self.read_object, page.items)
        return (item for item in found if item is not None), page.metadata

    def read_event(self, line: bytes) -> WatchEvent[Item]:
        """Decode one line of a watch.

        Raises:
            StaleError: it is an ERROR: the API server does not know the watch's version any more.
            msgspec.MsgspecError: it is not an event.
        """
        event = _event.decode(line)
        if event.type == "ERROR":
            raise StaleError(msgspec.json.decode(event.object, type=_Status).message)
        metadata = _named.decode(event.object).metadata
        item = self.read_object(event.object) if event.type not in {"BOOKMARK", "DELETED"} else None
        return WatchEvent(event.type, metadata.resource_version, metadata.key, item)

    def read_object(self, data: bytes | msgspec.Raw) -> Item | None:
        """Decode one object; None if it is unreadable.

        Raises:
            ValueError: it is not JSON.
        """
        try:
            found: Object = self._object.decode(data)
            return self._item_of(found)
        except ValueError as error:
            self._on_unreadable(_name(data), str(error))
            return None


def _name(data: bytes | msgspec.Raw) -> str:
    """Return `namespace/name` of an unreadable object, as far as it is known."""
    try:
        metadata = _named.decode(data).metadata
    except msgspec.ValidationError:
        return "?"
    return "/".join(filter(None, metadata.key)) or "?"
