"""Changes of an injected pod that Kubernetes does not allow: told in one line, before its own forty."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.denial import Denial, Reason

RESIZED = ("cpu", "memory")
"""May change in place, in some versions of Kubernetes by an update of the pod."""


class _Resources(msgspec.Struct, gc=False):
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct, gc=False):
    """What of a container is written at its creation for good, and can tell one manifest from another."""

    env: Any = None
    args: Any = None
    command: Any = None
    resources: _Resources | None = None

    def fixed(self) -> tuple[Any, ...]:
        limits = (self.resources.limits if self.resources is not None else None) or {}
        extended = {name: amount for name, amount in limits.items() if name not in RESIZED}
        return self.env, self.args, self.command, extended


class _Spec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] = []
    init_containers: list[_Container] | None = None

    def fixed(self) -> list[tuple[Any, ...]]:
        return [container.fixed() for container in (*self.containers, *(self.init_containers or ()))]


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec


class _Request(msgspec.Struct, rename="camel", gc=False):
    object: _Pod
    old_object: _Pod


class _Review(msgspec.Struct, gc=False):
    request: _Request


_review = msgspec.json.Decoder(_Review)


def refuse_change(body: bytes) -> Denial | None:
    """Deny the update of a pod whose containers would change in what cannot change, as by a second apply.

    Updates that cannot be read are left to the API server.
    """
    try:
        request = _review.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if request.object.spec.fixed() == request.old_object.spec.fixed():
        return None
    return Denial.of(
        Reason.POD_EXISTS,
        "the pod is there already, and what its containers ask for cannot change: delete it, then create it"
        " again (a ClearML task: enqueue it when its pod is gone)",
    )
