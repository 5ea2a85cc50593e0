"""Writes GpuLedgers: on change only, at most once a second for each node, by the leader only."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice

from controller.api_server import APPLY, TRANSPORT_ERRORS, ApiError, ApiServer
from controller.due_names import DueNames
from controller.gpu_ledger import (
    COLLECTION,
    Summary,
    list_gpu_ledgers,
    manifest,
    status_manifest,
    status_of,
)
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.state import Changes, State
from controller.turns import FACTS_AT_ONCE
from service.log import get_logger

FIELD_MANAGER = "fraction-injector-controller"
SECONDS_BETWEEN_WRITES = 1.0
WRITES_AT_ONCE = 8
WRITE_SECONDS = 5.0
"""After which a write counts as failed: the API server's own limit would hold up others for a minute."""
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
        self._written: dict[str, Summary] = {}
        self._owners: dict[str, str] = {}
        """By node: UID of the Node that owns its GpuLedger."""
        self._due = DueNames()
        """Nodes that have changed, by when they may be written."""
        self._last: dict[str, float] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Take over what is there, then publish changes until cancelled.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: what is there could not be listed.
        """
        changes = self._state.subscribe()
        try:
            await self._take_over()
            async with asyncio.TaskGroup() as group:
                # A slow write holds up its own node, and others only when eight are slow.
                workers = [group.create_task(self._work(changes)) for _ in range(WRITES_AT_ONCE)]
                await self._hand_out(changes)
                for worker in workers:
                    worker.cancel()
        finally:
            self._state.unsubscribe(changes)

    async def _hand_out(self, changes: Changes) -> None:
        """Give the workers what is due, until this replica no longer leads."""
        while self._leadership.leads:
            async for names in self._state.turns.slices(changes.take()):
                for name in names:
                    self._due.add(name, self._not_before(name))
            while ready := list(islice(self._due.take(self._clock()), FACTS_AT_ONCE)):
                for name in ready:
                    self._ready.put_nowait(name)
                await self._state.turns.next()
            await self._until_due(changes)

    async def _until_due(self, changes: Changes) -> None:
        """Wait for a change, or until a node that changed earlier may be written."""
        due = self._due.next()
        seconds = max(0.0, due - self._clock()) if due is not None else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changes.wait(), seconds)

    def _not_before(self, name: str) -> float:
        return self._last.get(name, -1.0) + SECONDS_BETWEEN_WRITES

    async def _work(self, changes: Changes) -> None:
        """Publish what is ready, one after the other, until cancelled."""
        while True:
            name = await self._ready.get()
            await self._state.turns.next()
            if self._leadership.leads:
                await self._publish(name)
            self._due.done(name, self._not_before(name))
            changes.wake()

    async def _take_over(self) -> None:
        found = await list_gpu_ledgers(self._api)
        highest = max((ledger.status.lease_transition for ledger in found if ledger.status), default=0)
        if highest > self._leadership.transition:
            await self._leadership.raise_transition(highest + 1)
        for ledger in found:
            name = ledger.metadata.name
            self._owners[name] = next((owner.uid for owner in ledger.metadata.owner_references), "")
            self._due.add(name, 0.0)
            if ledger.status is not None:
                self._written[name] = Summary.of(ledger.status)

    async def _publish(self, name: str) -> None:
        """Bring one GpuLedger to what the ledger says now; what fails is due again."""
        self._last[name] = self._clock()
        try:
            await self._write(name)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._due.add(name, self._not_before(name))
            self._metrics.publish_errors.inc()
            self._log.warning("not published", node=name, error=f"{type(error).__name__}: {error}")

    async def _write(self, name: str) -> None:
        view, node = self._state.ledger.node(name), self._state.nodes.get(name)
        if view is None or node is None:
            await self._delete(name)
            return
        before = self._written.get(name)
        conditions = before.conditions if before is not None else ()
        status = status_of(view, self._leadership.transition, _now(), conditions)
        summary = Summary.of(status)
        if self._owners.get(name) != node.uid:
            await self._apply(f"{COLLECTION}/{name}", manifest(name, node.uid))
            self._owners[name] = node.uid
        elif summary == before:
            return
        await self._apply(f"{COLLECTION}/{name}/status", status_manifest(name, status))
        self._written[name] = summary
        self._metrics.published.inc()

    async def _apply(self, path: str, body: object) -> None:
        try:
            await self._api.request(
                "PATCH", path, query=_APPLIED, body=body, content_type=APPLY, seconds=WRITE_SECONDS
            )
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                # Someone deleted it: the next attempt makes it anew.
                self._forget(path.removeprefix(f"{COLLECTION}/").removesuffix("/status"))
            raise

    async def _delete(self, name: str) -> None:
        if name not in self._owners:
            return
        try:
            await self._api.request("DELETE", f"{COLLECTION}/{name}", seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._owners.pop(name, None)
        self._written.pop(name, None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
