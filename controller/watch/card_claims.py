"""ResourceClaims as far as accounts of cards need them: what each holds of which card."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectMetadata, ObjectReader, logged
from kube.dra import CAPACITIES, DRIVER, SHARES_OF_CARD
from kube.names import RESOURCE_CLAIMS_PATH
from kube.quantity import whole
from ledger.claimed_cards import CardClaim, CardKey, ClaimedPart

_MIB = 1024 * 1024
MAX_AMOUNT = 2**40
"""More than any card has, so that sums of all claims stay integers of 64 bits."""
_UNREADABLE = logged("a ResourceClaim cannot be read: what it holds does not count")


class _Result(msgspec.Struct, rename="camel", gc=False):
    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None
    consumed_capacity: dict[str, str | int] | None = None


class _Devices(msgspec.Struct, gc=False):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct, gc=False):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Consumer(msgspec.Struct, gc=False):
    resource: str = ""
    name: str = ""


class _Status(msgspec.Struct, rename="camel", gc=False):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class _ResourceClaim(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    status: _Status = msgspec.field(default_factory=_Status)


def card_claims(on_unreadable: Callable[[str, str], None] = _UNREADABLE) -> Resource[CardClaim]:
    """All ResourceClaims, in clusters that serve them; those without cards of known drivers have no parts."""
    return Resource(
        "resourceclaims",
        RESOURCE_CLAIMS_PATH,
        ObjectReader(_ResourceClaim, _seen, on_unreadable),
        is_optional=True,
    )


def _seen(found: _ResourceClaim) -> CardClaim:
    metadata, status = found.metadata, found.status
    allocation = status.allocation or _Allocation()
    # A result with adminAccess takes nothing away from others.
    results = [
        each
        for each in allocation.devices.results or ()
        if each.driver in CAPACITIES and each.admin_access is not True
    ]
    pod = next((each.name for each in status.reserved_for or () if each.resource == "pods"), "")
    return CardClaim(metadata.namespace, metadata.name, pod, tuple(map(_part, results)))


def _part(result: _Result) -> ClaimedPart:
    card = CardKey(result.driver, result.pool, result.device)
    consumed = (result.consumed_capacity or {}).get(CAPACITIES[result.driver])
    amount = min(whole(consumed), MAX_AMOUNT) if consumed is not None else None
    if amount is None or result.driver == DRIVER:
        return ClaimedPart(card, 0, SHARES_OF_CARD if amount is None else amount, result.request)
    return ClaimedPart(card, -(-amount // _MIB), 0, result.request)
