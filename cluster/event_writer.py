"""Writes Events to the API server, each once; an Event that cannot be written is lost, logged and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from service.log import get_logger
from service.turns import TurnQueue

EVENT_SECONDS = 3.0
"""Timeout of a request."""
MAX_WAITING = 1000
MAX_KNOWN = 10_000
Manifest = Mapping[str, Any]
Waiting = tuple[Manifest, Callable[[], object]]
"""An Event, and what is called if there was none of its name."""


class EventWriter:
    """Writes Events one after the other, in a task of its own, so that slow ones delay nothing else.

    An Event's name says what it is about: of one name, only the first of a term is written.

    Args:
        api: the API server.
        lost: called for each Event that is lost.
    """

    def __init__(self, api: ApiServer, lost: Callable[[], object]) -> None:
        self._api = api
        self._lost = lost
        self._waiting: TurnQueue[Waiting] = TurnQueue(
            MAX_WAITING, lambda each: each[0]["metadata"]["namespace"]
        )
        self._known: dict[str, None] = {}
        """Names of Events, the oldest first."""
        self._log = get_logger("events")

    def write(self, manifest: Manifest, written: Callable[[], object] = lambda: None) -> bool:
        """Write an Event soon, and return True, unless one of its name was given before.

        `written` is called if the API server had none of its name. If too many wait, the newest one of the
        namespace with most is lost.
        """
        if (name := manifest["metadata"]["name"]) in self._known:
            return False
        self._known[name] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        if (lost := self._waiting.put((manifest, written))) is not None:
            self._known.pop(lost[0]["metadata"]["name"], None)
            self._lost()
        return True

    async def run(self) -> None:
        """Write Events until cancelled; those that still wait then are left out."""
        try:
            while True:
                await self._write(*await self._waiting.get())
        finally:
            # The next term tells again what this one may have lost; the API server knows what was written.
            self._waiting.clear()
            self._known.clear()

    async def _write(self, manifest: Manifest, written: Callable[[], object]) -> None:
        try:
            if await post_event(self._api, manifest):
                written()
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._lost()
            self._log.warning("an Event is lost", reason=manifest["reason"], error=str(error))


async def post_event(api: ApiServer, manifest: Manifest) -> bool:
    """Write an Event now; return False if one of this name exists already.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be written.
    """
    path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/events"
    try:
        await api.request("POST", path, body=manifest, seconds=EVENT_SECONDS)
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        return False
    return True
