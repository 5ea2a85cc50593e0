"""What a ResourceClaim gives to this node, and what the agent refuses in one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from agent.dra.checkpoint import PreparedClaim, PreparedDevice
from agent.gpu import Gpu
from kube.dra import DRIVER, SHARE_CAPACITY, SHARES_OF_CARD
from kube.names import FRACTION_LABEL
from kube.quantity import whole


class ClaimRefusedError(Exception):
    """A claim that the agent does not prepare; the text says why, and what to write instead."""


class _Result(msgspec.Struct, rename="camel"):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str | int] | None = None


class _Limit(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a configuration of ours."""

    api_version: Literal["gpu.clearml-injector.io/v1"] = msgspec.field(name="apiVersion")
    kind: Literal["GpuMemory"]
    memory_mib: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(name="memoryMiB")


class _Opaque(msgspec.Struct):
    driver: str = ""
    parameters: Any = None


class _Configuration(msgspec.Struct):
    source: str = ""
    requests: list[str] | None = None
    """Names of requests, or of `REQUEST/ALTERNATIVE`; all if there are none."""
    opaque: _Opaque | None = None

    def is_about(self, request: str) -> bool:
        """Whether it holds for a request, or for `REQUEST/ALTERNATIVE`."""
        return not self.requests or not {request, request.partition("/")[0]}.isdisjoint(self.requests)


class _Devices(msgspec.Struct):
    results: list[_Result] | None = None
    config: list[_Configuration] | None = None


class _Allocation(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Status(msgspec.Struct, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: list[dict[str, str]] | None = None


class _Object(msgspec.Struct):
    metadata: dict[str, Any]
    spec: dict[str, Any] = {}
    status: _Status = msgspec.field(default_factory=_Status)


def read_claim(found: dict[str, Any], uid: str, pool: str, cards: Mapping[str, Gpu]) -> PreparedClaim:
    """Return what a claim gives to this node.

    Args:
        found: the ResourceClaim, as the API server returned it.
        uid: UID that the kubelet named.
        pool: the node's pool.
        cards: that the node offers, by the names of their devices.

    Raises:
        ClaimRefusedError: it is another claim, is not allocated, or asks for what the agent does not give.
    """
    try:
        read = msgspec.convert(found, _Object)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ClaimRefusedError(f"the API server's ResourceClaim cannot be read: {error}") from error
    if read.metadata["uid"] != uid:
        raise ClaimRefusedError("another ResourceClaim has this name now: delete the pod")
    if read.status.allocation is None:
        raise ClaimRefusedError("the ResourceClaim is not allocated: the scheduler must place its pod")
    devices = read.status.allocation.devices
    limits = _limits(devices.config or ())
    ours = [each for each in devices.results or () if each.driver == DRIVER and each.pool == pool]
    if not ours:
        raise ClaimRefusedError(f"the ResourceClaim has no device of {DRIVER} on this node")
    classes = _classes(read.spec)
    for each in ours:
        if (of_class := classes.get(each.request)) != DRIVER:
            raise ClaimRefusedError(
                f"the request {each.request} is of the DeviceClass {of_class or 'none'}, and this driver"
                f" gives only cards of {DRIVER}: label the pod with {FRACTION_LABEL}"
            )
    pod = _only_pod(read.status)
    prepared = tuple([_device(each, limits, cards) for each in ours])
    return PreparedClaim(read.metadata["namespace"], read.metadata["name"], pod, prepared)


def _classes(spec: dict[str, Any]) -> dict[str, str]:
    """Return the DeviceClass of each request, and of each `REQUEST/ALTERNATIVE`."""
    found: dict[str, str] = {}
    for request in spec.get("devices", {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        found |= {f"{request['name']}/{each['name']}": each["deviceClassName"] for each in alternatives}
        if (exactly := request.get("exactly")) is not None:
            found[request["name"]] = exactly["deviceClassName"]
    return found


def _only_pod(status: _Status) -> str:
    """Return the UID of the one pod of a claim: two pods would each get all of its memory."""
    consumers = status.reserved_for or []
    if len(consumers) != 1 or consumers[0]["resource"] != "pods":
        raise ClaimRefusedError(
            f"the ResourceClaim is reserved for {len(consumers)} consumers, and a limit holds for one pod:"
            " use a ResourceClaimTemplate, which makes a claim for each"
        )
    return consumers[0]["uid"]


def _limits(configurations: Iterable[_Configuration]) -> list[tuple[_Configuration, int]]:
    """Return the MiB to which configurations of ours limit requests."""
    ours = [(each, each.opaque) for each in configurations if each.opaque and each.opaque.driver == DRIVER]
    try:
        if any(each.source != "FromClaim" for each, _ in ours):
            raise ClaimRefusedError(
                f"{DRIVER} accepts configuration only from claims: remove it from the class"
            )
        return [(each, msgspec.convert(opaque.parameters, _Limit).memory_mib) for each, opaque in ours]
    except msgspec.ValidationError as error:
        raise ClaimRefusedError(
            f"{DRIVER} accepts no other configuration than kind GpuMemory of {DRIVER}/v1, with only"
            " memoryMiB, an integer from 1 up"
        ) from error


def _device(
    result: _Result, limits: Iterable[tuple[_Configuration, int]], cards: Mapping[str, Gpu]
) -> PreparedDevice:
    if result.admin_access:
        raise ClaimRefusedError(f"{DRIVER} does not support adminAccess: remove it from the ResourceClaim")
    gpu = cards.get(result.device)
    if gpu is None:
        raise ClaimRefusedError(f"{result.device} is not a GPU that this node offers: delete the pod")
    share = _share(result.consumed_capacity)
    most = min((mib for each, mib in limits if each.is_about(result.request)), default=None)
    limit = _limit_mib(share, most, gpu.usable_mib)
    if limit is not None and limit < 1:
        raise ClaimRefusedError(f"its consumedCapacity is less than 1 MiB of memory of {result.device}")
    request = result.request.partition("/")[0]
    return PreparedDevice(request, result.device, result.share_id, gpu.uuid, limit)


def _limit_mib(share: int, most_mib: int | None, usable_mib: int) -> int | None:
    """Return the limit on a card with so many MiB for programs; None for a whole card.

    Args:
        share: millionths of the card.
        most_mib: the least MiB to which a configuration limits it; None without one.
        usable_mib: of the card.
    """
    if share >= SHARES_OF_CARD and (most_mib is None or most_mib >= usable_mib):
        return None
    if most_mib is None:
        return usable_mib * share // SHARES_OF_CARD
    # The parts of several containers were rounded up together (modes/claim.py), not each.
    return min(-(-usable_mib * share // SHARES_OF_CARD), most_mib)


def _share(consumed: dict[str, str | int] | None) -> int:
    """Return the millionths of a card; all of it if the scheduler counted no capacity."""
    if consumed is None:
        return SHARES_OF_CARD
    try:
        return whole(consumed[SHARE_CAPACITY])
    except KeyError as error:
        raise ClaimRefusedError(
            f"its consumedCapacity has no {SHARE_CAPACITY}: create the pod again"
        ) from error
    except ValueError as error:
        raise ClaimRefusedError(f"its consumedCapacity cannot be read: {error}") from error
