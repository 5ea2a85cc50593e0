"""Events as the core/v1 API takes and returns them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

COMPONENT = "fraction-injector"
CLUSTER_NAMESPACE = "default"
"""Namespace of Events on objects that have none."""
MIG_WAITS = "MigWaits"
"""Reason of Events on pods that wait for MIG instances: no card is divided for them now."""
WAITING_FOR_QUOTA = "WaitingForQuota"
"""Reason of Events on pods that wait for a quota."""
MAX_OBJECT_NAME = 200
"""Maximum number of characters that an Event's name takes from its object's name."""


class InvolvedObject(msgspec.Struct):
    """The object that an Event is about."""

    kind: str = ""
    name: str = ""


class EventSeries(msgspec.Struct, rename="camel"):
    """How often the Event was seen, if its writer counts that in `series`."""

    count: int = 1
    last_observed_time: str | None = None


class StoredEvent(msgspec.Struct, rename="camel"):
    """An Event as the API server returns it, by whatever writer."""

    involved_object: InvolvedObject
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def last_time(self) -> str | None:
        """When it was last seen, as RFC 3339."""
        of_series = self.series.last_observed_time if self.series is not None else None
        return of_series or self.last_timestamp or self.event_time

    @property
    def times(self) -> int:
        """How often the Event occurred."""
        return self.series.count if self.series is not None else self.count or 1


def event_name(object_name: str, identity: str) -> str:
    """Return the name of an Event. The same object and identity give the same name, so it is written once."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"{object_name[:MAX_OBJECT_NAME]}.{digest}"


def event(  # noqa: PLR0913 - each is a field of the Event
    involved: Mapping[str, str],
    reason: str,
    message: str,
    *,
    name: str,
    now: datetime,
    kind: Literal["Normal", "Warning"] = "Warning",
) -> dict[str, Any]:
    """Return the manifest of an Event, in the namespace of the object that it describes.

    `involved` has the fields of an ObjectReference; `name` comes from `event_name`.
    """
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": involved.get("namespace", CLUSTER_NAMESPACE)},
        "involvedObject": {"apiVersion": "v1", **involved},
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": COMPONENT},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
