"""Writes GpuLedgers: only changes, at most once per second and node, and only on the leader.

GpuLedgers are watched too: if somebody deletes or changes one, it is written again within seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus

from certs.values import format_time
from cluster.informer import Watcher
from cluster.kube_client import APPLY, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leadership import Leadership
from cluster.watched_resource import WatchedResource
from controller.publish.gpu_ledger import (
    GpuLedger,
    StoredLedger,
    digest_of,
    gpu_ledgers,
    manifest,
    status_manifest,
    status_of,
)
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from kube.names import GPU_LEDGERS_PATH
from service.log import get_logger

FIELD_MANAGER = "fraction-injector-controller"
SECONDS_BETWEEN_ROUNDS = 1.0
WRITES_AT_ONCE = 8
WRITE_SECONDS = 5.0
"""Timeout of a write; the API server's own limit would delay other writes for a minute."""
_APPLIED: dict[str, str | int] = {"fieldManager": FIELD_MANAGER, "force": "true"}


class GpuLedgerWriter:
    """Writes during one term. A new term gets a new writer, which writes everything once."""

    def __init__(
        self, api: ApiServer, state: LedgerStore, leadership: Leadership, metrics: ControllerMetrics
    ) -> None:
        self._api = api
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._log = get_logger("publish")
        self._stored: dict[str, StoredLedger] = {}
        """The API server's state by node, as last watched."""
        self._listed = asyncio.Event()
        self._changes = state.subscribe()
        metrics.terms_behind.set(0)
        self.behind: str | None = None
        """The problem if another controller writes the same GpuLedgers in a later term."""

    async def run(self) -> None:
        """Read what exists, then publish changes and repair what others change, until cancelled."""
        stored: WatchedResource[GpuLedger] = WatchedResource(
            key_of=lambda ledger: ("", ledger.metadata.name),
            keys=lambda: [("", name) for name in self._stored],
            set=lambda ledger: self._watched(ledger.metadata.name, StoredLedger.of(ledger)),
            remove=lambda key: self._watched(key[1], None),
            listed=self._is_listed,
            yielding=self._state.yielding,
        )
        watcher = Watcher(self._api, gpu_ledgers(), stored, self._metrics)
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(watcher.run())
                await self._take_over()
                while self._leadership.leads:
                    await self._changes.wait()
                    await self._publish_all(self._changes.take())
                    await asyncio.sleep(SECONDS_BETWEEN_ROUNDS)
                watch.cancel()
        finally:
            self._state.unsubscribe(self._changes)

    async def _is_listed(self) -> None:
        self._listed.set()

    def _watched(self, name: str, stored: StoredLedger | None) -> None:
        """Record a watched GpuLedger; None if it was deleted."""
        if self._stored.get(name) == stored:
            return
        if stored is None:
            del self._stored[name]
        else:
            self._stored[name] = stored
        self._changes.mark(name)

    async def _take_over(self) -> None:
        await self._listed.wait()
        highest = max((stored.transition for stored in self._stored.values()), default=0)
        if highest > self._leadership.transition:
            await self._leadership.raise_transition(highest + 1)

    async def _publish_all(self, names: list[str]) -> None:
        """Write these nodes' ledgers; a slow write delays others only if all eight are slow."""
        left = iter(names)
        await asyncio.gather(*[self._publish(left) for _ in range(min(len(names), WRITES_AT_ONCE))])

    async def _publish(self, names: Iterator[str]) -> None:
        """Write one ledger after the other; after a failure, it is written in the next round."""
        for name in names:
            await self._state.yielding.step()
            if not self._leadership.leads:
                return
            try:
                await self._write(name)
            except (ApiError, *TRANSPORT_ERRORS) as error:
                self._changes.mark(name)
                self._metrics.publish_errors.inc()
                self._log.warning("not published", node=name, error=f"{type(error).__name__}: {error}")

    async def _write(self, name: str) -> None:
        view, node = self._state.ledger.node(name), self._state.nodes.get(name)
        if view is None or node is None:
            await self._delete(name)
            return
        before = self._stored.get(name) or StoredLedger(())
        if self._is_behind(before):
            return
        if node.uid not in before.owners:
            await self._apply(name, "", manifest(name, node.uid))
        now = format_time(datetime.now(UTC))
        status = status_of(view, self._leadership.transition, now, before.conditions)
        if digest_of(status) != before.digest:
            await self._apply(name, "/status", status_manifest(name, status))
            self._metrics.published.inc()

    async def _apply(self, name: str, part: str, body: object) -> None:
        path = f"{GPU_LEDGERS_PATH}/{name}{part}"
        await self._api.request(
            "PATCH", path, query=_APPLIED, body=body, content_type=APPLY, seconds=WRITE_SECONDS
        )

    async def _delete(self, name: str) -> None:
        if name not in self._stored:
            return
        try:
            await self._api.request("DELETE", f"{GPU_LEDGERS_PATH}/{name}", seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

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
