"""Denies changes of an injected pod that Kubernetes forbids: one line instead of Kubernetes' forty."""

from __future__ import annotations

from typing import Any

import msgspec

from webhook.admission.denial import Denial, Reason

RESIZED = ("cpu", "memory")
"""Resources that may change in place; some versions of Kubernetes allow it by an update of the pod."""


class _Resources(msgspec.Struct, gc=False):
    limits: dict[str, Any] | None = None


class _Container(msgspec.Struct, gc=False):
    """Fields of a container that are fixed at creation and can differ between manifests."""

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
    """Deny the update of a pod that would change fixed fields of its containers, as a second apply does.

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
        "the pod already exists, and its containers cannot change in this way: delete it, then create it"
        " again (a ClearML task: enqueue it when its pod is gone)",
    )
