"""Writes findings as Events on pods."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from cluster.event_writer import EventWriter
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leadership import Leadership
from controller.pods.pod_demands import read_demands
from controller.pods.pod_findings import (
    HAS_ROOM,
    MAX_MESSAGE,
    NO_GPU,
    Finding,
    findings,
    waiting_for_card,
    waiting_message,
)
from controller.pods.room import RoomFinder
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenPod
from kube.events import event, event_name
from ledger.quota_line import QuotasOf, unknown_quotas
from modes.resource_names import ResourceNames
from service.log import get_logger
from service.turns import TurnQueue

MAX_PENDING = 1000
SECONDS_BETWEEN_EVENTS = 0.1
RENEW_SECONDS = 300.0
"""So often it is checked whether the Event on a waiting pod is still right."""
_RENEWED = frozenset({"WaitingForSlices", "WaitingForCard", "WaitingForQuota"})
_NORMAL = frozenset({"WaitingForQuota", "QuotaHasRoom", "ShareIdle", "IdleShareKept"})


class PodEvents:
    """Collects findings, and writes them while this replica leads.

    An Event's name follows from pod, reason and, for one on what a pod waits for, its text, so that no
    leader repeats another's Event. The latter is written again when it says something else.
    """

    def __init__(  # noqa: PLR0913 - the parts of a controller that it joins
        self,
        api: ApiServer,
        state: LedgerStore,
        leadership: Leadership,
        metrics: ControllerMetrics,
        names: ResourceNames,
        *,
        events: EventWriter,
        quotas_of: QuotasOf = unknown_quotas,
    ) -> None:
        self._api = api
        self._quotas_of = quotas_of
        self._events = events
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._names = names
        self._room = RoomFinder(state)
        self._pending: TurnQueue[Finding] = TurnQueue(MAX_PENDING, lambda finding: finding.namespace)
        self._noted: dict[str, None] = {}
        self._said: dict[str, tuple[float, Finding, str]] = {}
        """What waiting pods were told, and when that is checked again; the first to check comes first."""
        self._log = get_logger("events")
        state.on_pod = self._note

    async def run(self) -> None:
        """Write findings while this replica leads, starting with the known pods."""
        async for keys in self._state.yielding.batches(list(self._state.pods)):
            for key in keys:
                if (pod := self._state.pods.get(key)) is not None:
                    self._note(pod)
        while self._leadership.leads:
            await self._write_event(await self._next())
            await asyncio.sleep(SECONDS_BETWEEN_EVENTS)

    async def _next(self) -> Finding:
        """Wait for a new finding, or until one of a waiting pod is to be checked again."""
        due, finding, _ = next(iter(self._said.values()), (None, None, ""))
        try:
            async with asyncio.timeout(None if due is None else due - time.monotonic()):
                return await self._pending.get()
        except TimeoutError:
            if finding is None:
                raise
            return finding

    def _note(self, pod: SeenPod) -> None:
        if not self._leadership.leads:
            return
        for finding in findings(pod):
            name = _name(finding)
            if name in self._noted:
                continue
            self._noted[name] = None
            if len(self._noted) > 10 * MAX_PENDING:
                del self._noted[next(iter(self._noted))]
            if (lost := self._pending.put(finding)) is not None:
                self._noted.pop(_name(lost), None)
                self._metrics.events_lost.inc()

    async def _write_event(self, finding: Finding) -> None:
        if finding.reason == "WaitingForQuota":
            key = finding.namespace, finding.pod
            line = self._state.ledger.line.place_text(key, self._quotas_of)
            message = line and line[:MAX_MESSAGE]
        else:
            message = finding.message or await self._waiting(finding)
        if message is None:
            # It may still come to wait for slices: then the scheduler updates the pod again.
            self._noted.pop(_name(finding), None)
            self._said.pop(_name(finding), None)
            return
        before, now, occasion = self._said.pop(_name(finding), None), datetime.now(UTC), ""
        if finding.reason in _RENEWED:
            self._said[_name(finding)] = (time.monotonic() + RENEW_SECONDS, finding, message)
            if len(self._said) > MAX_PENDING:
                self._leave_one_out()
            # What was so before may be so again: then the text does not tell the Events apart.
            occasion = message if before is None else now.isoformat()
        if before is None or before[2] != message:
            written = self._metrics.events.labels(finding.reason).inc
            self._events.write(pod_event(finding, message, now, occasion), written)

    def _leave_one_out(self) -> None:
        """No longer check the newest Event of the namespace with most."""
        most = Counter([each.namespace for _, each, _ in self._said.values()]).most_common(1)[0][0]
        del self._said[next(name for name in reversed(self._said) if self._said[name][1].namespace == most)]

    async def _waiting(self, finding: Finding) -> str | None:
        """What a pod waits for now; None if it does not wait any more.

        If it cannot be read, what was said before; None if that was nothing. That it waits for something else
        is said only where that corrects what was said before.
        """
        pod = self._state.pods.get((finding.namespace, finding.pod))
        if pod is None or pod.injected is None or pod.injected.uid != finding.uid:
            return None
        _, _, said = self._said.get(_name(finding), (0.0, finding, None))
        try:
            asked = await read_demands(self._api, pod)
        except (ApiError, ValueError, *TRANSPORT_ERRORS) as error:
            self._log.warning("a waiting pod cannot be explained", pod=finding.pod, error=str(error))
            return said
        if asked is None or asked.of_node is None:
            return None
        if finding.reason == "WaitingForCard" and asked.claim is not None:
            room = await self._room.cards(asked.claim, asked.kinds, asked.of_node)
            message = waiting_for_card(replace(asked.claim, room=room))
            other = HAS_ROOM if room is not None and room.has_room else None
        else:
            free = await self._room.nodes(pod.fact, asked.of_node, by_agent=pod.is_limited_by_agent)
            if free is None:
                return None
            owner, models = pod.injected.owner, bool(asked.kinds.models)
            message = waiting_message(
                pod.fact, free, self._names, owner, asked.not_considered, asks_model=models
            )
            other = HAS_ROOM if free.has_room else NO_GPU
        return message or (other if said is not None else None)


def pod_event(finding: Finding, message: str, now: datetime, occasion: str = "") -> dict[str, Any]:
    """Return a finding's Event on its pod; one with an `occasion` is written once for each."""
    involved = {"kind": "Pod", "namespace": finding.namespace, "name": finding.pod, "uid": finding.uid}
    kind: Literal["Normal", "Warning"] = "Normal" if finding.reason in _NORMAL else "Warning"
    return event(involved, finding.reason, message, name=_name(finding, occasion), now=now, kind=kind)


def _name(finding: Finding, occasion: str = "") -> str:
    return event_name(finding.pod, f"{finding.uid} {finding.reason} {occasion}".rstrip())
