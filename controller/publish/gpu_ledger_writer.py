"""Writes GpuLedgers: only changes, at most once per second and node, and only on the leader.

GpuLedgers are watched too: if somebody deletes or changes one, it is written again within seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice

import msgspec

from cluster.informer import Watcher
from cluster.kube_client import APPLY, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leadership import Leadership
from cluster.watched_resource import WatchedResource
from controller.publish.gpu_ledger import (
    GpuLedger,
    StoredLedger,
    gpu_ledgers,
    manifest,
    status_manifest,
    status_of,
)
from controller.publish.metrics import ControllerMetrics
from controller.publish.work_queue import WorkQueue
from controller.watch.ledger_store import LedgerStore
from kube.names import GPU_LEDGERS_PATH
from service.log import get_logger
from service.yielding import FACTS_AT_ONCE

FIELD_MANAGER = "fraction-injector-controller"
SECONDS_BETWEEN_WRITES = 1.0
WRITES_AT_ONCE = 8
WRITE_SECONDS = 5.0
"""Timeout of a write; the API server's own limit would delay other writes for a minute."""
_APPLIED: dict[str, str | int] = {"fieldManager": FIELD_MANAGER, "force": "true"}


class GpuLedgerWriter:
    """Writes during one term. A new term gets a new writer, which writes everything once."""

    def __init__(
        self,
        api: ApiServer,
        state: LedgerStore,
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
        self._stored: dict[str, StoredLedger] = {}
        """The API server's state by node, as last watched or written."""
        self._writing: set[str] = set()
        self._meanwhile: dict[str, StoredLedger | None] = {}
        """GpuLedgers that were watched while they were being written."""
        self._due = WorkQueue()
        """Changed nodes, with the earliest time of their next write."""
        self._last: dict[str, float] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._listed = asyncio.Event()
        self._changes = state.subscribe()
        metrics.terms_behind.set(0)
        self.behind: str | None = None
        """The problem if another controller writes the same GpuLedgers in a later term."""

    async def run(self) -> None:
        """Read what exists, then publish changes and repair what others change, until cancelled."""
        watcher = Watcher(self._api, gpu_ledgers(), self._sink(), self._metrics)
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(watcher.run())
                await self._take_over()
                # A slow write delays its own node, and others only if all eight workers are slow.
                workers = [group.create_task(self._work()) for _ in range(WRITES_AT_ONCE)]
                await self._hand_out()
                for task in (watch, *workers):
                    task.cancel()
        finally:
            self._state.unsubscribe(self._changes)

    def _sink(self) -> WatchedResource[GpuLedger]:
        return WatchedResource(
            key_of=lambda ledger: ("", ledger.metadata.name),
            keys=lambda: [("", name) for name in self._stored],
            set=lambda ledger: self._watched(ledger.metadata.name, StoredLedger.of(ledger)),
            remove=lambda key: self._watched(key[1], None),
            listed=self._is_listed,
            yielding=self._state.yielding,
        )

    async def _is_listed(self) -> None:
        self._listed.set()

    def _watched(self, name: str, stored: StoredLedger | None) -> None:
        """Record a watched GpuLedger; None if it was deleted."""
        if name in self._writing:
            self._meanwhile[name] = stored
        elif self._stored.get(name) != stored:
            self._store(name, stored)
            self._due.add(name, self._not_before(name))
            self._changes.wake()

    async def _hand_out(self) -> None:
        """Give due nodes to the workers, until this replica no longer leads."""
        while self._leadership.leads:
            async for names in self._state.yielding.batches(self._changes.take()):
                for name in names:
                    self._due.add(name, self._not_before(name))
            while ready := list(islice(self._due.take(self._clock()), FACTS_AT_ONCE)):
                for name in ready:
                    self._ready.put_nowait(name)
                await self._state.yielding.step()
            await self._until_due()

    async def _until_due(self) -> None:
        """Wait for a change, or until an earlier change may be written."""
        due = self._due.next()
        seconds = max(0.0, due - self._clock()) if due is not None else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changes.wait(), seconds)

    def _not_before(self, name: str) -> float:
        return self._last.get(name, -1.0) + SECONDS_BETWEEN_WRITES

    async def _work(self) -> None:
        """Publish due nodes one after the other, until cancelled."""
        while True:
            name = await self._ready.get()
            await self._state.yielding.step()
            if self._leadership.leads:
                await self._publish(name)
            self._due.done(name, self._not_before(name))
            self._changes.wake()

    async def _take_over(self) -> None:
        await self._listed.wait()
        highest = max((stored.transition for stored in self._stored.values()), default=0)
        if highest > self._leadership.transition:
            await self._leadership.raise_transition(highest + 1)

    async def _publish(self, name: str) -> None:
        """Write the current ledger of one node; after a failure it is due again."""
        self._last[name] = self._clock()
        self._writing.add(name)
        try:
            await self._write(name)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._due.add(name, self._not_before(name))
            self._metrics.publish_errors.inc()
            self._log.warning("not published", node=name, error=f"{type(error).__name__}: {error}")
        finally:
            self._writing.discard(name)
            if name in self._meanwhile:
                # It may be older than our own write: then the next write has nothing to do.
                self._watched(name, self._meanwhile.pop(name))

    async def _write(self, name: str) -> None:
        view, node = self._state.ledger.node(name), self._state.nodes.get(name)
        if view is None or node is None:
            await self._delete(name)
            return
        before = self._stored.get(name) or StoredLedger(())
        if self._is_behind(before):
            return
        status = status_of(view, self._leadership.transition, _now(), before.conditions)
        owners = before.owners
        if node.uid not in owners:
            await self._apply(name, "", manifest(name, node.uid))
            owners = (*owners, node.uid)
            self._store(name, msgspec.structs.replace(before, owners=owners))
        stored = StoredLedger.with_status(owners, status)
        if stored.digest == before.digest:
            return
        await self._apply(name, "/status", status_manifest(name, status))
        self._store(name, stored)
        self._metrics.published.inc()

    async def _apply(self, name: str, part: str, body: object) -> None:
        path = f"{GPU_LEDGERS_PATH}/{name}{part}"
        try:
            await self._api.request(
                "PATCH", path, query=_APPLIED, body=body, content_type=APPLY, seconds=WRITE_SECONDS
            )
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                # It was deleted: the next attempt creates it.
                self._store(name, None)
            raise

    async def _delete(self, name: str) -> None:
        if name not in self._stored:
            return
        try:
            await self._api.request("DELETE", f"{GPU_LEDGERS_PATH}/{name}", seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        self._store(name, None)

    def _store(self, name: str, stored: StoredLedger | None) -> None:
        if stored is None:
            self._stored.pop(name, None)
        else:
            self._stored[name] = stored

    def _is_behind(self, stored: StoredLedger) -> bool:
        """Whether a later term wrote a GpuLedger; ours would be rejected, so this is reported instead."""
        ours = self._leadership.transition
        if stored.transition <= ours:
            return False
        self._metrics.terms_behind.set(stored.transition - ours)
        if self.behind is None:
            self.behind = (
                f"GpuLedgers are written in term {stored.transition} by another controller, this one leads in"
                f" term {ours}: uninstall one of two installations, then restart this controller"
            )
            self._log.error("another controller writes GpuLedgers", term=stored.transition, ours=ours)
        return True


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
