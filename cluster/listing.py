"""Resources to list and watch, and paged lists of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from cluster.kube_client import ApiServer
from cluster.object_reader import ObjectReader
from kube.objects import ListMeta

Item = TypeVar("Item")

PAGE = 100
"""Objects per request: decoding more would block the event loop for too long."""
LARGE_PAGE = 500
"""Objects per request in a process that has nothing else to do meanwhile."""


@dataclass(frozen=True, slots=True)
class Resource(Generic[Item]):
    """A resource to list and watch, and how to decode it to items."""

    name: str
    """Name for logs and metrics, such as "pods"."""
    path: str
    reader: ObjectReader[Any, Item]
    fields: Mapping[str, str] = field(default_factory=dict)
    """Query parameters of lists and watches."""
    page: int = PAGE
    is_optional: bool = False
    """Whether API servers may not serve it: it then counts as empty, and is tried again later."""


async def pages(
    api: ApiServer, resource: Resource[Item], *, page: int = LARGE_PAGE, most: int | None = None
) -> AsyncIterator[tuple[list[Item], ListMeta]]:
    """Yield items and metadata of each page of a list, with at most `page` objects each.

    With `most`, stop after that number of pages: `continue_` of the last one says whether there are more.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the next page could not be read.
        ValueError: it is not a list.
    """
    query: dict[str, str | int] = {"limit": page, **resource.fields}
    count = 0
    while most is None or count < most:
        data = await api.request("GET", resource.path, query=query)
        items, metadata = resource.reader.read_list(data)
        yield items, metadata
        if not metadata.continue_:
            return
        query["continue"] = metadata.continue_
        count += 1


async def list_all(api: ApiServer, resource: Resource[Item]) -> list[Item]:
    """Return the current objects of a resource, without a watch.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be listed.
        ValueError: the answer is not a list.
    """
    return [item async for page, _ in pages(api, resource) for item in page]
