"""List, watch, list again: what the API server holds of one resource, taken in without an end.

The rules are those of the Kubernetes API's own concepts page: pages of a list share one version, a watch goes
on from there, bookmarks carry the version on, 410 Gone means that the version is forgotten.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import Resource, pages
from cluster.object_reader import StaleError
from cluster.watch_health import WatchHealth
from cluster.watched_resource import WatchedResource
from service.log import get_logger
from service.retry import Backoff

Item = TypeVar("Item")

_FORGOTTEN = {HTTPStatus.BAD_REQUEST, HTTPStatus.GONE, HTTPStatus.GATEWAY_TIMEOUT}
"""Answers to a watch whose version the server does not know: 504 where it lies in the server's future."""
ABSENT_SECONDS = 300.0
"""After which a resource is asked for again that the API server does not serve: it may be upgraded."""
ABSENT_ANSWERS = 4
"""After so many in a row, a resource that was served is taken to be gone: in an upgrade, one API server of
several may not serve it."""
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds after which a watch is started again. The API server sends a bookmark about once a minute."""

    server_seconds: int = 290
    """How long the server is asked to keep a watch; a random part of it, to spread the load."""
    silence_seconds: float = 100.0
    """Without a byte for so long, the connection is taken for dead."""


class Counts(Protocol):
    """Where a watch's troubles are counted."""

    def listed(self, resource: str) -> None:
        """A whole list was taken in."""

    def failed(self, resource: str, reason: str) -> None:
        """A list or watch broke."""


class Watcher(Generic[Item]):
    """Keeps a watched resource at what the API server holds of one resource."""

    def __init__(  # noqa: PLR0913 the last three are replaced in tests only
        self,
        api: ApiServer,
        resource: Resource[Item],
        watched: WatchedResource[Item],
        counts: Counts,
        *,
        timing: Timing = Timing(),
        sleep: Sleep = asyncio.sleep,
        backoff: Backoff | None = None,
        health: WatchHealth | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._watched = watched
        self._counts = counts
        self._timing = timing
        self._sleep = sleep
        self._backoff = backoff or Backoff()
        self._health = health or WatchHealth()
        self._version = ""
        self._is_known_absent = False
        self._absent_answers = 0
        self._log = get_logger("watch")

    async def run(self) -> None:
        """List and watch, until cancelled."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch_on()
            except StaleError as error:
                await self._pause("stale", error)
            except (ApiError, ValueError, *TRANSPORT_ERRORS) as error:
                if self._counts_as_absent(error):
                    await self._wait_for_it()
                else:
                    await self._pause("list", error)

    def _counts_as_absent(self, error: Exception) -> bool:
        if not (self._resource.is_optional and _is_not_found(error)):
            return False
        self._absent_answers += 1
        return not self._version or self._absent_answers >= ABSENT_ANSWERS

    async def _wait_for_it(self) -> None:
        """Take in that there is none of a resource that the API server does not serve, and wait."""
        await self._watched.replace(_no_pages())
        self._health.heard()
        if not self._is_known_absent:
            self._log.info("the API server does not serve it", resource=self._resource.name)
        self._is_known_absent = True
        self._version = ""
        await self._sleep(ABSENT_SECONDS)

    async def _list(self) -> None:
        await self._watched.replace(self._pages())
        self._health.heard()
        self._counts.listed(self._resource.name)

    async def _pages(self) -> AsyncIterator[list[Item]]:
        count, version = 0, ""
        async for page, metadata in pages(self._api, self._resource, page=self._resource.page):
            self._health.answered()
            count, version = count + len(page), metadata.resource_version
            yield page
        self._version, self._absent_answers = version, 0
        self._log.info("listed", resource=self._resource.name, items=count)

    async def _watch_on(self) -> None:
        """Watch from where we are until the connection ends, and pause if that was trouble.

        Raises:
            StaleError: the server forgot that version, or an event could not be understood.
        """
        try:
            lines = await self._watch()
        except ApiError as error:
            if error.status in _FORGOTTEN or (self._resource.is_optional and _is_not_found(error)):
                raise StaleError(str(error)) from None
            await self._pause("watch", error)
        except TRANSPORT_ERRORS as error:
            await self._pause("watch", error)
        else:
            if not lines:
                self._health.failed("the watch ended without a word")
                await self._sleep(self._backoff.next())

    async def _watch(self) -> int:
        most = self._timing.server_seconds
        query: dict[str, str | int] = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": random.randint((most + 1) // 2, most),  # noqa: S311 only spreads load
            **self._resource.fields,
        }
        count = 0
        async with self._api.stream(self._resource.path, query, self._timing.silence_seconds) as lines:
            async for line in lines:
                self._take(line)
                self._health.heard()
                self._backoff.reset()
                count += 1
        return count

    def _take(self, line: bytes) -> None:
        try:
            event = self._resource.reader.read_event(line)
        except msgspec.MsgspecError as error:
            raise StaleError(f"an event of {len(line)} bytes cannot be read: {error}") from None
        if event.item is not None:
            self._watched.set(event.item)
        elif event.type != "BOOKMARK":
            self._watched.remove(event.key)
        self._version = event.resource_version

    async def _pause(self, what: str, error: Exception) -> None:
        seconds = self._backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        self._counts.failed(self._resource.name, what)
        self._health.failed(f"{type(error).__name__}: {error}")
        self._log.warning(
            f"{what} failed",
            resource=self._resource.name,
            error=f"{type(error).__name__}: {error}",
            again_in=round(seconds, 2),
        )
        await self._sleep(seconds)


def _is_not_found(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND


async def _no_pages() -> AsyncIterator[list[Any]]:
    for page in list[list[Any]]():
        yield page
