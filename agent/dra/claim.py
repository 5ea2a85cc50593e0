"""What a ResourceClaim gives to this node, and what the agent refuses in one. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kube.dra import DRIVER, MEMORY_CAPACITY
from kube.names import FRACTION_LABEL
from kube.quantity import parse_quantity

MAX_RESULTS = 32
"""Kubernetes' own maximum of results in a claim."""
_MIB = 1024 * 1024
_UID = re.compile(r"[0-9a-zA-Z](?:[-0-9a-zA-Z]{0,62}[0-9a-zA-Z])?", re.ASCII)


class ClaimRefusedError(Exception):
    """A claim that the agent does not prepare; the text says why, and what to write instead."""


class Granted(msgspec.Struct, frozen=True):
    """A part of a card, or all of it, that a claim got on this node."""

    request: str
    """Name of the request in the claim, without that of its alternative."""
    device: str
    share_id: str | None
    mib: int | None
    """None for the whole card: the scheduler counted no capacity."""


class AllocatedClaim(msgspec.Struct, frozen=True):
    """A claim that is allocated and reserved for one pod."""

    namespace: str
    name: str
    uid: str
    pod: str
    """UID of its pod."""
    granted: tuple[Granted, ...]


class _Result(msgspec.Struct, rename="camel"):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str | int] | None = None


class _Opaque(msgspec.Struct):
    driver: str = ""


class _Configuration(msgspec.Struct):
    opaque: _Opaque | None = None


class _Devices(msgspec.Struct):
    results: list[_Result] | None = None
    config: list[_Configuration] | None = None


class _Allocation(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Consumer(msgspec.Struct):
    resource: str = ""
    uid: str = ""


class _Status(msgspec.Struct, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class _Metadata(msgspec.Struct):
    namespace: str
    name: str
    uid: str


class _Exact(msgspec.Struct, rename="camel"):
    device_class_name: str = ""


class _Alternative(msgspec.Struct, rename="camel"):
    name: str
    device_class_name: str = ""


class _Request(msgspec.Struct, rename="camel"):
    name: str
    exactly: _Exact | None = None
    first_available: list[_Alternative] | None = None


class _Requests(msgspec.Struct):
    requests: list[_Request] | None = None


class _Spec(msgspec.Struct):
    devices: _Requests = msgspec.field(default_factory=_Requests)

    def class_of(self, request: str) -> str:
        """Return the DeviceClass of a request, or of `REQUEST/ALTERNATIVE`; empty if there is none."""
        found: dict[str, str] = {}
        for each in self.devices.requests or ():
            if each.exactly is not None:
                found[each.name] = each.exactly.device_class_name
            for one in each.first_available or ():
                found[f"{each.name}/{one.name}"] = one.device_class_name
        return found.get(request, "")


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def is_uid(text: str) -> bool:
    """Whether a text can be an object's UID, and so a part of a file's name."""
    return _UID.fullmatch(text) is not None


def read_claim(found: dict[str, Any], uid: str, pool: str) -> AllocatedClaim:
    """Return what a claim gives to this node.

    Args:
        found: the ResourceClaim, as the API server returned it.
        uid: UID that the kubelet named.
        pool: the node's pool.

    Raises:
        ClaimRefusedError: it is another claim, is not allocated, or asks for what the agent does not give.
    """
    try:
        read = msgspec.convert(found, _Object)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ClaimRefusedError(f"the API server's ResourceClaim cannot be read: {error}") from error
    if read.metadata.uid != uid:
        raise ClaimRefusedError("another ResourceClaim has this name now: delete the pod")
    if read.status.allocation is None:
        raise ClaimRefusedError("the ResourceClaim is not allocated: the scheduler must place its pod")
    devices = read.status.allocation.devices
    if any(each.opaque is not None and each.opaque.driver == DRIVER for each in devices.config or ()):
        raise ClaimRefusedError(f"{DRIVER} accepts no configuration: remove it from the ResourceClaim")
    ours = [each for each in devices.results or () if each.driver == DRIVER and each.pool == pool]
    if not 0 < len(ours) <= MAX_RESULTS:
        raise ClaimRefusedError(
            f"the ResourceClaim has {len(ours)} devices of {DRIVER} on this node, not 1 to {MAX_RESULTS}"
        )
    for each in ours:
        if (of_class := read.spec.class_of(each.request)) != DRIVER:
            raise ClaimRefusedError(
                f"the request {each.request} is of the DeviceClass {of_class or 'none'}, and this driver"
                f" gives cards of {DRIVER} alone: label the pod with {FRACTION_LABEL}"
            )
    granted = tuple(map(_granted, ours))
    return AllocatedClaim(read.metadata.namespace, read.metadata.name, uid, _only_pod(read.status), granted)


def _only_pod(status: _Status) -> str:
    """Return the UID of the one pod of a claim: two pods would each get all of its memory."""
    consumers = status.reserved_for or []
    if len(consumers) != 1 or consumers[0].resource != "pods":
        raise ClaimRefusedError(
            f"the ResourceClaim is reserved for {len(consumers)} consumers, and a limit holds for one pod:"
            " use a ResourceClaimTemplate, which makes a claim for each"
        )
    return consumers[0].uid


def _granted(result: _Result) -> Granted:
    if result.admin_access:
        raise ClaimRefusedError(f"{DRIVER} does not support adminAccess: remove it from the ResourceClaim")
    consumed = (result.consumed_capacity or {}).get(MEMORY_CAPACITY)
    request = result.request.partition("/")[0]
    return Granted(request, result.device, result.share_id, None if consumed is None else _mib(consumed))


def _mib(consumed: str | int) -> int:
    try:
        mib = parse_quantity(consumed) // _MIB
    except ValueError as error:
        raise ClaimRefusedError(f"its consumedCapacity cannot be read: {error}") from error
    if mib < 1:
        raise ClaimRefusedError("its consumedCapacity is less than 1 MiB of memory")
    return int(mib)
