"""The target of a watch of one resource."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.yielding import CooperativeYield

Item = TypeVar("Item")

ObjectKey = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[Item]):
    """Stores the API server's state of one resource."""

    key_of: Callable[[Item], ObjectKey]
    keys: Callable[[], Iterable[ObjectKey]]
    """Keys of all objects that are stored."""
    set: Callable[[Item], object]
    """Stores an added or changed object; what it returns is not used."""
    remove: Callable[[ObjectKey], object]
    """Removes a deleted object; what it returns is not used."""
    listed: Callable[[], Awaitable[None]]
    """Called after each complete list."""
    yielding: CooperativeYield

    async def replace(self, pages: AsyncIterator[list[Item]]) -> None:
        """Replace everything by a complete list: objects that are on no page are removed at the end.

        If reading a page raises an error, it is passed on, and nothing is removed.
        """
        listed = set[ObjectKey]()
        async for page in pages:
            async for items in self.yielding.batches(page):
                for item in items:
                    listed.add(self.key_of(item))
                    self.set(item)
            # These objects live long: a full garbage collection that walked them would block for 100 ms and
            # more. Garbage cycles of this moment are kept as well; they are few, and lists are rare.
            gc.freeze()
        async for keys in self.yielding.batches(list(self.keys())):
            for key in keys:
                if key not in listed:
                    self.remove(key)
        await self.listed()
