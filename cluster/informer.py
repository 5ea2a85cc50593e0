"""Keeps the state of one resource by list and watch, without end.

The rules are those of the Kubernetes API concepts page: pages of a list share one version, a watch continues
from it, bookmarks advance the version, and 410 Gone means that the version has expired.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer, TooLargeError
from cluster.listing import Resource, pages
from cluster.object_reader import StaleError
from cluster.watch_health import WatchHealth
from cluster.watched_resource import WatchedResource
from service.log import get_logger
from service.retry import Backoff

Item = TypeVar("Item")

_FORGOTTEN = {HTTPStatus.BAD_REQUEST, HTTPStatus.GONE, HTTPStatus.GATEWAY_TIMEOUT}
"""Statuses of a watch from a version that the server does not know; 504 if it does not have it yet."""
ABSENT_SECONDS = 300.0
"""Seconds after which a resource that the API server does not serve is listed again, as after an upgrade."""
ABSENT_ANSWERS = 4
"""After this number of 404s in a row, a resource that was served counts as removed. During an upgrade, one
API server of several may not serve it."""
WATCH_SECONDS = 290
"""Maximum duration of a watch that is requested from the server; a random part is used, to spread load."""
Sleep = Callable[[float], Awaitable[None]]


class Counts(Protocol):
    """Called by a watch, to keep metrics."""

    def listed(self, resource: str) -> None:
        """Count a list that was read completely."""

    def failed(self, resource: str, reason: str) -> None:
        """Count a list or watch that failed."""


class Watcher(Generic[Item]):
    """Keeps a watched resource equal to the API server's state."""

    def __init__(  # noqa: PLR0913 the last three are replaced in tests only
        self,
        api: ApiServer,
        resource: Resource[Item],
        watched: WatchedResource[Item],
        counts: Counts,
        *,
        silence_seconds: float = 100.0,
        sleep: Sleep = asyncio.sleep,
        backoff: Backoff | None = None,
        health: WatchHealth | None = None,
    ) -> None:
        """After `silence_seconds` without a byte, a watch counts as dead; it gets a bookmark each minute."""
        self._api = api
        self._resource = resource
        self._watched = watched
        self._counts = counts
        self._silence_seconds = silence_seconds
        self._sleep = sleep
        self._backoff = backoff or Backoff()
        self._health = health or WatchHealth()
        self._version = ""
        self._is_known_absent = False
        self._absent_answers = 0
        self._log = get_logger("watch")

    async def run(self) -> None:
        """List and watch the objects until cancelled."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch_on()
            except StaleError as error:
                await self._pause("stale", error)
            except (ApiError, ValueError, *TRANSPORT_ERRORS) as error:
                self._absent_answers += self._is_absent(error)
                was_served = self._version and self._absent_answers < ABSENT_ANSWERS
                if self._is_absent(error) and not was_served:
                    await self._wait_for_it()
                else:
                    await self._pause("list", error)

    def _is_absent(self, error: Exception) -> bool:
        is_not_found = isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND
        return is_not_found and self._resource.is_optional

    async def _wait_for_it(self) -> None:
        """Set the resource to empty while the API server does not serve it, and wait."""
        await self._watched.replace(_no_pages())
        self._health.observed()
        if not self._is_known_absent:
            self._log.info("the API server does not serve it", resource=self._resource.name)
        self._is_known_absent = True
        self._version = ""
        await self._sleep(ABSENT_SECONDS)

    async def _list(self) -> None:
        await self._watched.replace(self._pages())
        self._health.observed()
        self._counts.listed(self._resource.name)

    async def _pages(self) -> AsyncIterator[list[Item]]:
        count, version = 0, ""
        async for page, metadata in pages(self._api, self._resource):
            self._health.answered()
            count, version = count + len(page), metadata.resource_version
            yield page
        self._version, self._absent_answers = version, 0
        self._log.info("listed", resource=self._resource.name, items=count)

    async def _watch_on(self) -> None:
        """Watch from the current version until the connection ends; pause after an error.

        Raises:
            StaleError: the server does not know the version, or an event could not be read.
        """
        try:
            lines = await self._watch()
        except TooLargeError as error:
            raise StaleError(f"an event: {error}") from None
        except ApiError as error:
            if error.status in _FORGOTTEN or self._is_absent(error):
                raise StaleError(str(error)) from None
            await self._pause("watch", error)
        except TRANSPORT_ERRORS as error:
            await self._pause("watch", error)
        else:
            if not lines:
                self._health.failed("the watch ended without an event")
                await self._sleep(self._backoff.next())

    async def _watch(self) -> int:
        query: dict[str, str | int] = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": random.randint(WATCH_SECONDS // 2, WATCH_SECONDS),  # noqa: S311 only spreads load
            **self._resource.fields,
        }
        count = 0
        async with self._api.stream(self._resource.path, query, self._silence_seconds) as lines:
            async for line in lines:
                self._take(line)
                self._health.observed()
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


async def _no_pages() -> AsyncIterator[list[Any]]:
    for page in list[list[Any]]():
        yield page
