"""A pod and its Events, reduced to what explains why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from urllib.parse import quote

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectReader, refuse
from controller.watch.resources import Owner
from kube.container_status import ContainerStatus, PodCondition
from kube.events import StoredEvent
from kube.names import MEMORY_MIB_ANNOTATION
from ledger.why import PodSummary
from ledger.why_refused import EventSummary


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class _Gate(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Annotations(msgspec.Struct):
    memory_mib: str | None = msgspec.field(default=None, name=MEMORY_MIB_ANNOTATION)


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: _Annotations | None = None
    owner_references: list[Owner] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def with_details(summary: PodSummary, data: bytes, now: datetime) -> PodSummary:
    """Add the state of a pod to what the ledger knows of it.

    Raises:
        msgspec.MsgspecError: `data` is not a pod.
    """
    pod = msgspec.json.decode(data, type=_Pod)
    metadata, status = pod.metadata, pod.status
    refused = [
        each for each in status.conditions or () if (each.type, each.status) == ("PodScheduled", "False")
    ]
    return replace(
        summary,
        phase=status.phase,
        is_terminating=metadata.deletion_timestamp is not None,
        waited_seconds=_age(metadata.creation_timestamp, now),
        memory_mib=metadata.annotations.memory_mib if metadata.annotations is not None else None,
        owner=next((owner for owner in metadata.owner_references or () if owner.controller), None),
        gates=tuple([gate.name for gate in pod.spec.scheduling_gates or ()]),
        scheduler_says=(refused[0].message or refused[0].reason) if refused else None,
        trouble=next(_troubles(status), None),
    )


def events_of(namespace: str, selector: str, now: datetime) -> Resource[EventSummary]:
    """Return the resource to list the Events of a namespace that a field selector matches."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
    reader = ObjectReader[StoredEvent, EventSummary](StoredEvent, partial(_summary, now=now), refuse)
    return Resource("events", path, reader, {"fieldSelector": selector})


def newest_first(events: Iterable[EventSummary]) -> list[EventSummary]:
    """Sort Events; those without a time come last."""
    return sorted(
        events, key=lambda event: event.age_seconds if event.age_seconds is not None else float("inf")
    )


def _troubles(status: _Status) -> Iterator[str]:
    if status.phase == "Failed" and (status.reason or status.message):
        yield _joined(status.reason, status.message)
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    for container in containers:
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in {"", "ContainerCreating", "PodInitializing"}:
            yield f"container {container.name}: {_joined(waiting.reason, waiting.message)}"
        if ended is not None and ended.exit_code:
            how = _joined(ended.reason, ended.message or f"exit status {ended.exit_code}")
            yield f"container {container.name}: {how}"


def _joined(reason: str, message: str) -> str:
    return ": ".join(filter(None, (reason, message)))


def _summary(event: StoredEvent, now: datetime) -> EventSummary:
    involved, age = event.involved_object, _age(event.last_time, now)
    return EventSummary(
        involved.kind, involved.name, event.reason or "", event.message or "", event.times, age
    )


def _age(time: str | None, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(time)).total_seconds() if time else None
    except (ValueError, TypeError):
        return None
