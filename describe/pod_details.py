"""A pod and its Events, reduced to what explains why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
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


def with_details(summary: PodSummary, data: bytes, now: datetime) -> PodSummary:
    """Add the state of a pod to what the ledger knows of it; `data` is the pod as the API server sent it."""
    pod = msgspec.json.decode(data)
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = msgspec.convert(status.get("conditions") or [], list[PodCondition])
    refused = [each for each in conditions if (each.type, each.status) == ("PodScheduled", "False")]
    owners = msgspec.convert(metadata.get("ownerReferences") or [], list[Owner])
    return replace(
        summary,
        phase=status.get("phase", "Pending"),
        is_terminating=metadata.get("deletionTimestamp") is not None,
        waited_seconds=_age(metadata.get("creationTimestamp"), now),
        memory_mib=(metadata.get("annotations") or {}).get(MEMORY_MIB_ANNOTATION),
        owner=next((owner for owner in owners if owner.controller), None),
        gates=tuple([gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]),
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


def _troubles(status: dict[str, Any]) -> Iterator[str]:
    if status.get("phase") == "Failed" and (said := _joined(status.get("reason"), status.get("message"))):
        yield said
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in msgspec.convert(containers, list[ContainerStatus]):
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in {"", "ContainerCreating", "PodInitializing"}:
            yield f"container {container.name}: {_joined(waiting.reason, waiting.message)}"
        if ended is not None and ended.exit_code:
            how = _joined(ended.reason, ended.message or f"exit status {ended.exit_code}")
            yield f"container {container.name}: {how}"


def _joined(reason: str | None, message: str | None) -> str:
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
