"""Writes GpuLedgers: on change only, at most once a second for each node, by the leader only."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus

from controller.api_server import APPLY, TRANSPORT_ERRORS, ApiError, ApiServer
from controller.gpu_ledger import (
    COLLECTION,
    Status,
    list_gpu_ledgers,
    manifest,
    status_manifest,
    status_of,
)
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.state import Changes, State
from service.log import get_logger

FIELD_MANAGER = "fraction-injector-controller"
SECONDS_BETWEEN_WRITES = 1.0
WRITES_AT_ONCE = 8
_APPLIED: dict[str, str | int] = {"fieldManager": FIELD_MANAGER, "force": "true"}


class Publisher:
    """One term's writing; a new term gets a new one, which writes everything once."""

    def __init__(
        self,
        api: ApiServer,
        state: State,
        leadership: Leadership,
        metrics: ControllerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._clock = clock
        self._log = get_logger("publish")
        self._written: dict[str, Status] = {}
        self._owners: dict[str, str] = {}
        """By node: UID of the Node that owns its GpuLedger."""
        self._due: dict[str, float] = {}
        """By node that has changed: when it may be written."""
        self._last: dict[str, float] = {}
        self._permits = asyncio.Semaphore(WRITES_AT_ONCE)

    async def run(self) -> None:
        """Take over what is there, then publish changes until cancelled.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: what is there could not be listed.
        """
        changes = self._state.subscribe()
        try:
            await self._take_over()
            while self._leadership.leads:
                await self._until_due(changes)
                for name in changes.take():
                    self._due.setdefault(name, self._last.get(name, -1.0) + SECONDS_BETWEEN_WRITES)
                now = self._clock()
                ready = [name for name, due in self._due.items() if due <= now]
                await asyncio.gather(*map(self._publish, ready))
        finally:
            self._state.unsubscribe(changes)

    async def _until_due(self, changes: Changes) -> None:
        """Wait for a change, or until a node that changed earlier may be written."""
        seconds = max(0.0, min(self._due.values()) - self._clock()) if self._due else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changes.wait(), seconds)

    async def _take_over(self) -> None:
        found = await list_gpu_ledgers(self._api)
        highest = max((ledger.status.lease_transition for ledger in found if ledger.status), default=0)
        if highest > self._leadership.transition:
            await self._leadership.raise_transition(highest + 1)
        for ledger in found:
            name = ledger.metadata.name
            self._owners[name] = next((owner.uid for owner in ledger.metadata.owner_references), "")
            self._due[name] = 0.0
            if ledger.status is not None:
                self._written[name] = ledger.status

    async def _publish(self, name: str) -> None:
        """Bring one GpuLedger to what the ledger says now; what fails stays due."""
        async with self._permits:
            if not self._leadership.leads:
                return
            self._last[name] = self._clock()
            try:
                await self._write(name)
            except (ApiError, *TRANSPORT_ERRORS) as error:
                self._due[name] = self._last[name] + SECONDS_BETWEEN_WRITES
                self._metrics.publish_errors.inc()
                self._log.warning("not published", node=name, error=f"{type(error).__name__}: {error}")
                return
            self._due.pop(name, None)

    async def _write(self, name: str) -> None:
        view, node = self._state.ledger.node(name), self._state.nodes.get(name)
        if view is None or node is None:
            await self._delete(name)
            return
        before = self._written.get(name)
        status = status_of(view, self._leadership.transition, _now(), before)
        if self._owners.get(name) != node.uid:
            await self._apply(f"{COLLECTION}/{name}", manifest(name, node.uid))
            self._owners[name] = node.uid
        elif status == before:
            return
        await self._apply(f"{COLLECTION}/{name}/status", status_manifest(name, status))
        self._written[name] = status
        self._metrics.published.inc()

    async def _apply(self, path: str, body: object) -> None:
        try:
            await self._api.request("PATCH", path, query=_APPLIED, body=body, content_type=APPLY)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                # Someone deleted it: the next attempt makes it anew.
                self._forget(path.removeprefix(f"{COLLECTION}/").removesuffix("/status"))
            raise

    async def _delete(self, name: str) -> None:
        if name not in self._owners:
            return
        try:
            await self._api.request("DELETE", f"{COLLECTION}/{name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._owners.pop(name, None)
        self._written.pop(name, None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
