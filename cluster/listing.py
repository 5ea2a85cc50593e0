"""Resources to list and watch, and lists of them in pages of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from cluster.kube_client import MAX_ANSWER_BYTES, METADATA_LIST, ApiServer, TooLargeError
from cluster.object_reader import ObjectReader, StoredObject, refuse
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


def _refuse_large(name: str) -> None:
    refuse(name, f"larger than {MAX_ANSWER_BYTES // 2**20} MiB")


async def pages(
    api: ApiServer,
    resource: Resource[Item],
    *,
    most: int | None = None,
    left_out: Callable[[str], None] = _refuse_large,
) -> AsyncIterator[tuple[list[Item], ListMeta]]:
    """Yield items and metadata of each page of a list; other tasks run while a page is decoded.

    A page has at most PAGE objects, and MAX_ANSWER_BYTES. `left_out` is called with `namespace/name` of an
    object that is larger; by default, that is an error. With `most`, stop after that number of pages:
    `continue_` of the last one says whether there are more.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the next page could not be read.
        ValueError: it is not a list, or an object is too large.
    """
    limit, count = PAGE, 0
    place: dict[str, str | int] = {}
    while most is None or count < most:
        query: dict[str, str | int] = {"limit": limit, **resource.fields, **place}
        try:
            data = await api.request("GET", resource.path, query=query)
        except TooLargeError:
            if limit > 1:
                limit //= 2
                continue
            items, metadata = list[Item](), await _pass_over(api, resource.path, query, left_out)
        else:
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


class _Names(msgspec.Struct):
    metadata: ListMeta
    items: list[StoredObject]


async def _pass_over(
    api: ApiServer, path: str, query: Mapping[str, str | int], left_out: Callable[[str], None]
) -> ListMeta:
    """Read only name and position of the one object of a page.

    Raises:
        ValueError: the answer has more objects than the page's one.
    """
    data = await api.request("GET", path, query=query, accept=METADATA_LIST)
    page = msgspec.json.decode(data, type=_Names)
    if len(page.items) > 1:
        raise ValueError(f"{path}: the API server ignores `limit`")
    for found in page.items:
        left_out("/".join(filter(None, found.metadata.key)))
    return page.metadata


async def list_all(api: ApiServer, resource: Resource[Item]) -> list[Item]:
    """Return the current objects of a resource, without a watch.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be listed.
        ValueError: the answer is not a list, or an object is too large.
    """
    return [item async for page, _ in pages(api, resource) for item in page]
