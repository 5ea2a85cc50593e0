"""Events as the core/v1 API takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

COMPONENT = "fraction-injector"
CLUSTER_NAMESPACE = "default"
"""Where Events on objects without a namespace belong."""
MIG_NEVER_FITS, MIG_WAITS = "MigNeverFits", "MigWaits"
"""Reasons of Events on pods that wait for MIG instances: no card can ever have them, none is divided now."""
MAX_OBJECT_NAME = 200
"""Characters of an object's name that its Event's name begins with."""


def event_name(object_name: str, identity: str) -> str:
    """Return the name of an Event: the same for the same object and identity, so that it is written once."""
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
    """Return the manifest of an Event, in the namespace of the object that it is about.

    Args:
        involved: The object, as fields of an ObjectReference.
        reason: One word in CamelCase.
        message: What happened, and what to do.
        name: Of the Event itself, by `event_name`.
        now: First and last time of it.
        kind: Its type.
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
