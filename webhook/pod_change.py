"""Denies changes of an injected pod that Kubernetes forbids: one line instead of Kubernetes' forty."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.denial import Denial, Reason

RESIZED = ("cpu", "memory")
"""Resources that may change in place; some versions of Kubernetes allow it by an update of the pod."""


def refuse_change(body: bytes) -> Denial | None:
    """Deny the update of a pod that would change fixed fields of its containers, as a second apply does.

    Updates that cannot be read are left to the API server.
    """
    try:
        request = msgspec.json.decode(body)["request"]
        is_same = _fixed(request["object"]) == _fixed(request["oldObject"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    if is_same:
        return None
    return Denial.of(
        Reason.POD_EXISTS,
        "the pod already exists, and its containers cannot change in this way: delete it, then create it"
        " again (a ClearML task: enqueue it when its pod is gone)",
    )


def _fixed(pod: Any) -> list[Any]:
    """Return the fields of each container that are fixed at creation and can differ between manifests."""
    spec, found = pod["spec"], []
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        limits = (container.get("resources") or {}).get("limits") or {}
        fixed = {name: amount for name, amount in limits.items() if name not in RESIZED}
        found.append([*map(container.get, ("env", "args", "command")), fixed])
    return found
