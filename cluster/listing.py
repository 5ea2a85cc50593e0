"""What to list and watch of the API server, and its lists, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from cluster.kube_client import ApiServer
from cluster.object_reader import ObjectReader
from kube.objects import ListMeta

Item = TypeVar("Item")

PAGE = 100
"""Objects of one request: more would be decoded in one long step."""
LARGE_PAGE = 500
"""The same, where nothing has to go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Resource(Generic[Item]):
    """What to list and watch, and what makes items of its JSON."""

    name: str
    """For logs and metrics, such as "pods"."""
    path: str
    reader: ObjectReader[Any, Item]
    fields: Mapping[str, str] = field(default_factory=dict)
    """Of the query, to list and to watch."""
    page: int = PAGE
    is_optional: bool = False
    """Whether an API server may not serve it: then there is none, and it is asked again after a while."""


async def pages(
    api: ApiServer, resource: Resource[Item], *, page: int = LARGE_PAGE, most: int | None = None
) -> AsyncIterator[tuple[list[Item], ListMeta]]:
    """Yield the items and the metadata of each page of a list, with `page` objects each.

    Ends after `most` pages where that is given: `continue_` of the last page says whether there are more.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the next page could not be read.
        ValueError: it is no list.
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
    """Return what the API server holds of a resource now, for who does not watch it.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be listed.
        ValueError: what came is no list.
    """
    return [item async for page, _ in pages(api, resource) for item in page]
