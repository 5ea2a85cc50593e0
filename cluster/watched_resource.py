"""Where the watch of one resource goes."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.yielding import CooperativeYield

Item = TypeVar("Item")

ObjectKey = tuple[str, str]
"""Namespace, empty for what has none, and name."""


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[Item]):
    """Takes in what the API server holds of one resource."""

    key_of: Callable[[Item], ObjectKey]
    keys: Callable[[], Iterable[ObjectKey]]
    """Keys of all objects that were taken in and not removed since."""
    set: Callable[[Item], None]
    """Takes in an object that was added or changed."""
    remove: Callable[[ObjectKey], None]
    """Takes in that an object is gone."""
    listed: Callable[[], Awaitable[None]]
    """Called after each whole list."""
    yielding: CooperativeYield

    async def replace(self, pages: AsyncIterator[list[Item]]) -> None:
        """Take in a whole list: what is on no page is gone. In between, an object is as it was or as it is.

        Pages are used up; what they raise is passed on, and then nothing is removed.
        """
        listed = set[ObjectKey]()
        async for page in pages:
            async for items in self.yielding.batches(page):
                for item in items:
                    listed.add(self.key_of(item))
                    self.set(item)
            # What was taken in lives long: a full collection that walked it would be one step of 100 ms and
            # more. Cycles that are garbage just now are kept as well; they are few, and lists are rare.
            gc.freeze()
        async for keys in self.yielding.batches(list(self.keys())):
            for key in keys:
                if key not in listed:
                    self.remove(key)
        await self.listed()
