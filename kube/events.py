"""Events as the core/v1 API takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

COMPONENT = "fraction-injector"
CLUSTER_NAMESPACE = "default"
"""Namespace of Events on objects that have none."""
MIG_NEVER_FITS, MIG_WAITS = "MigNeverFits", "MigWaits"
"""Reasons of Events on pods that wait for MIG instances: no card can ever hold them, none is divided now."""
MAX_OBJECT_NAME = 200
"""Maximum number of characters that an Event's name takes from its object's name."""


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

    Args:
        involved: The object, as fields of an ObjectReference.
        reason: One word in CamelCase.
        message: What happened, and what to do.
        name: Name of the Event itself, from `event_name`.
        now: The first and last timestamp.
        kind: Type of the Event.
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
