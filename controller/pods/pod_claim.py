"""The claim of a pod's share in mode dra, as the API server has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.pods.pending_pod import NamedClaim, StoredPod
from controller.watch.card_claims import card_claims
from kube.dra import CAPACITIES, CLAIM_NAME, DRIVER, REQUEST_NAME, SHARES_OF_CARD
from kube.quantity import whole
from ledger.claim_room import ClaimAsk
from ledger.why_claim import ClaimState, ShareClaim
from modes.claim_name import MAX_SIZES, sizes_of_name
from modes.fraction import MAX_CONTAINERS
from modes.gpu_kinds import EVERY_KIND, GpuKinds, read_gpu_kinds

UNANSWERED = (ApiError, *TRANSPORT_ERRORS, ValueError)
"""What a request to the API server raises if there is no answer to use."""
Note = Callable[[str, Exception], None]
"""Called with what could not be read, and why."""
_MIB = 1024 * 1024
_REQUEST = re.compile(rf"{REQUEST_NAME}(-[0-9]{{1,2}})?", re.ASCII)
"""Names of the requests of a share (modes/claim.py)."""
_SIZE = re.compile(r"m([0-9]{1,9})", re.ASCII)
"""Name of an alternative: the least MiB of the cards that it is for (modes/claim.py)."""
_GROUP = "/apis/resource.k8s.io/v1/namespaces"


class _Capacity(msgspec.Struct):
    requests: dict[str, str | int] | None = None


class _Asked(msgspec.Struct, rename="camel"):
    name: str = ""
    device_class_name: str = ""
    count: int | None = None
    capacity: _Capacity | None = None


class _Request(msgspec.Struct, rename="camel"):
    name: str = ""
    exactly: _Asked | None = None
    first_available: list[_Asked] | None = None


class _Limit(msgspec.Struct):
    memory_mib: int = msgspec.field(default=0, name="memoryMiB")


class _Opaque(msgspec.Struct):
    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class _Configuration(msgspec.Struct):
    opaque: _Opaque | None = None


class _Devices(msgspec.Struct):
    requests: list[_Request] | None = None
    constraints: list[Any] | None = None
    config: list[_Configuration] | None = None


class _ClaimSpec(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Claim(msgspec.Struct):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


class _Template(msgspec.Struct):
    spec: _Claim = msgspec.field(default_factory=_Claim)


def kinds_of(pod: StoredPod) -> GpuKinds:
    """Return the kinds of GPU that a pod accepts; every kind if its annotations cannot be read."""
    found = read_gpu_kinds(pod.metadata.annotations or {})
    return found if isinstance(found, GpuKinds) else EVERY_KIND


async def read_claim_of_pod(api: ApiServer, namespace: str, pod: StoredPod, note: Note) -> ShareClaim | None:
    """Return the claim of a pod's share; None if the pod has none. `note` gets what cannot be read."""
    template = _named(pod.spec.resource_claims)
    if template is None:
        return None
    created, template_name = _named(pod.status.resource_claim_statuses), template.resource_claim_template_name
    name = (created.resource_claim_name if created is not None else None) or template.resource_claim_name
    found = ShareClaim(state="unread", template=template_name or "", name=name or "")
    try:
        if name:
            return _of_claim(found, await _get(api, namespace, "resourceclaims", name))
        return await _of_template(api, namespace, found)
    except UNANSWERED as error:
        if name and getattr(error, "status", None) == HTTPStatus.NOT_FOUND:
            return replace(found, state="deleted")
        note("the pod's ResourceClaim", error)
        return found


def _named(claims: Iterable[NamedClaim] | None) -> NamedClaim | None:
    return next((each for each in claims or () if each.name == CLAIM_NAME), None)


async def _get(api: ApiServer, namespace: str, resource: str, name: str) -> bytes:
    return await api.request("GET", f"{_GROUP}/{quote(namespace, safe='')}/{resource}/{quote(name, safe='')}")


def _of_claim(found: ShareClaim, data: bytes) -> ShareClaim:
    claim = msgspec.json.decode(data, type=_Claim)
    read = card_claims().reader.read_object(data)
    parts = read.parts if read is not None else ()
    state: ClaimState = "allocated" if parts else "waiting"
    return replace(_with_asked(found, claim), state=state, parts=parts)


async def _of_template(api: ApiServer, namespace: str, found: ShareClaim) -> ShareClaim:
    try:
        data = await _get(api, namespace, "resourceclaimtemplates", found.template)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return replace(found, state="no template")
    return claim_of_template(found.template, data)


def claim_of_template(name: str, data: bytes) -> ShareClaim:
    """Return the claim that Kubernetes makes from a template.

    Raises:
        ValueError: it is not a template, or an amount is not a quantity.
    """
    claim = msgspec.json.decode(data, type=_Template).spec
    return _with_asked(ShareClaim(state="not created", template=name), claim)


def _with_asked(found: ShareClaim, claim: _Claim) -> ShareClaim:
    """Return it with its driver and what it asks for.

    Raises:
        ValueError: an amount is not a quantity.
    """
    driver, asked = _asked(claim)
    if asked is not None and driver != DRIVER and (sizes := sizes_of_name(found.template)):
        asked = replace(asked, card_mib=sizes[0])
    return replace(found, driver=driver, asked=asked)


def _asked(claim: _Claim) -> tuple[str, ClaimAsk | None]:
    devices = claim.spec.devices
    requests = [each for each in devices.requests or () if _REQUEST.fullmatch(each.name)][:MAX_CONTAINERS]
    classes = {each.device_class_name for request in requests for each in _alternatives(request)}
    if len(classes) != 1 or not classes <= CAPACITIES.keys():
        return "", None
    driver = classes.pop()
    of_each = [[_alternative(each, driver) for each in _alternatives(request)] for request in requests]
    # Parts that may be on different cards: no amount of one card says whether they have room.
    is_apart = len(requests) > 1 and not devices.constraints
    if is_apart or len(set(map(len, of_each))) != 1:
        return "", None
    first, *others = map(_together, zip(*of_each, strict=True))
    if driver == DRIVER and (mib := _exact_mib(devices)):
        sizes = [_SIZE.fullmatch(each.name) for each in _alternatives(requests[0])]
        known = zip(sizes, [first, *others], strict=True)
        shares = sorted([(int(size[1]), each.share) for size, each in known if size is not None])
        return DRIVER, ClaimAsk(mib, shares=tuple(shares), count=first.count)
    return (driver, first) if not others else ("", None)


def _exact_mib(devices: _Devices) -> int:
    """Return the MiB that a claim of the agent's driver is limited to; 0 if it asks for a part of a card."""
    ours = [each.opaque for each in devices.config or () if each.opaque and each.opaque.driver == DRIVER]
    return sum([msgspec.json.decode(each.parameters, type=_Limit).memory_mib for each in ours])


def _alternatives(request: _Request) -> list[_Asked]:
    return [request.exactly] if request.exactly is not None else (request.first_available or [])[:MAX_SIZES]


def _together(parts: tuple[ClaimAsk, ...]) -> ClaimAsk:
    """Return what the requests of several containers ask of one card."""
    mib, share = sum([each.memory_mib for each in parts]), sum([each.share for each in parts])
    return replace(parts[0], memory_mib=mib, share=min(share, SHARES_OF_CARD))


def _alternative(asked: _Asked, driver: str) -> ClaimAsk:
    text = (asked.capacity.requests or {}).get(CAPACITIES[driver]) if asked.capacity is not None else None
    count = asked.count or 1
    if text is None or driver == DRIVER:
        return ClaimAsk(share=SHARES_OF_CARD if text is None else whole(text), count=count)
    return ClaimAsk(-(-whole(text) // _MIB), count=count)
