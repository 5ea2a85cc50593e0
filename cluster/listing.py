"""Resources to list and watch, and lists of them in pages of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from cluster.kube_client import MAX_ANSWER_BYTES, ApiServer, TooLargeError
from cluster.object_reader import ObjectReader, refuse
from kube.objects import ListMeta
from service.yielding import TimeSlice

Item = TypeVar("Item")
Struct = TypeVar("Struct")

PAGE = 500
"""Maximum objects per request, as kubectl's; fewer if they have more than MAX_ANSWER_BYTES together."""
_ROOM = 4
"""A page that fills less than this part of MAX_ANSWER_BYTES lets the next one have twice as many objects."""


@dataclass(frozen=True, slots=True)
class Resource(Generic[Item]):
    """A resource to list and watch, and how to decode it to items."""

    name: str
    """Name for logs and metrics, such as "pods"."""
    path: str
    reader: ObjectReader[Any, Item]
    fields: Mapping[str, str] = field(default_factory=dict)
    """Query parameters of lists and watches."""
    is_optional: bool = False
    """Whether API servers may not serve it: it then counts as empty, and is tried again later."""


def objects_at(
    path: str, struct: type[Struct], fields: Mapping[str, str] = MappingProxyType({})
) -> Resource[Struct]:
    """Return the resource whose items are its objects, as `struct`; none of them may be unreadable."""
    return Resource(path, path, ObjectReader(struct, lambda found: found, refuse), fields)


async def pages(
    api: ApiServer, resource: Resource[Item], most: int | None = None
) -> AsyncIterator[tuple[list[Item], ListMeta]]:
    """Yield items and metadata of each page of a list; other tasks run while a page is decoded.

    A page has at most PAGE objects, and MAX_ANSWER_BYTES. With `most`, stop after that number of pages:
    `continue_` of the last one says whether there are more.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the next page could not be read.
        ValueError: it is not a list.
    """
    limit, count = PAGE, 0
    place: dict[str, str | int] = {}
    while most is None or count < most:
        query: dict[str, str | int] = {"limit": limit, **resource.fields, **place}
        try:
            data = await api.request("GET", resource.path, query=query)
        except TooLargeError:
            if limit == 1:
                raise
            limit //= 2
            continue
        items, metadata = await _decoded(resource, data)
        if len(data) < MAX_ANSWER_BYTES // _ROOM:
            limit = min(PAGE, 2 * limit)
        yield items, metadata
        if not metadata.continue_:
            return
        place["continue"] = metadata.continue_
        count += 1


async def _decoded(resource: Resource[Item], data: bytes) -> tuple[list[Item], ListMeta]:
    items, time_slice = list[Item](), TimeSlice()
    found, metadata = resource.reader.read_list(data)
    await time_slice.pause()
    for item in found:
        items.append(item)
        await time_slice.pause()
    return items, metadata


async def list_all(api: ApiServer, resource: Resource[Item]) -> list[Item]:
    """Return the current objects of a resource, without a watch.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be listed.
        ValueError: the answer is not a list.
    """
    return [item async for page, _ in pages(api, resource) for item in page]
