"""The custom resource GpuLedger: how a node's ledger is published, and read back."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectReader
from controller.publish import node_problems
from kube.names import API_VERSION, GPU_LEDGERS_PATH
from ledger.card_view import CardShare, CardView
from ledger.view import GpuView, Holding, NodeView, Unlisted
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.units import POOL, Profile, index_of, profile_of_resource

_encode = msgspec.json.Encoder().encode
NEVER = "1970-01-01T00:00:00Z"
_MOST = 2**63 - 1
"""Maximum integer of the resource: the API server rejects a whole status with a larger one."""


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One condition, with the fields of the Kubernetes API."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str = NEVER


class GpuStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One GPU, the MIG instances of one profile, or the pool of a node whose GPUs share one resource name."""

    capacity: int
    used: int
    free: int
    over: int
    index: int | None = None
    profile: str | None = None
    """Profile of MIG instances, which have no index."""
    cordoned: bool = False
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    shares: tuple[Holding, ...] = ()
    unlisted: Unlisted | None = None
    model: str | None = None


class CardShareStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one claim holds of a card."""

    namespace: str
    claim: str
    memory_mib: int = msgspec.field(name="memoryMiB")
    pod: str = ""
    queue: str = ""


class CardStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One card that a DRA driver offers."""

    driver: str
    device: str
    memory_mib: int = msgspec.field(name="memoryMiB")
    claimed_mib: int = msgspec.field(name="claimedMiB")
    free_mib: int = msgspec.field(name="freeMiB")
    claims: int
    uuid: str = ""
    model: str = ""
    taint: str = ""
    shares: tuple[CardShareStatus, ...] = ()


class CardSums(msgspec.Struct, frozen=True, rename="camel"):
    """Sums of the cards of a node."""

    count: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    claimed_mib: int = msgspec.field(name="claimedMiB")
    free_mib: int = msgspec.field(name="freeMiB")


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """Totals have their own fields, because a printer column cannot sum up a list."""

    lease_transition: int
    gpu_count: int = 0
    slices_per_gpu: int = 0
    used: int = 0
    free: int = 0
    largest_free: int = 0
    over: int = 0
    gpu_memory_mib: int | None = msgspec.field(default=None, name="gpuMemoryMiB")
    product: str | None = None
    conditions: tuple[Condition, ...] = ()
    gpus: tuple[GpuStatus, ...] = ()
    unlisted: Unlisted | None = None
    claimable: CardSums | None = None
    """None without cards."""
    cards: tuple[CardStatus, ...] = ()


class OwnerUid(msgspec.Struct, frozen=True):
    """The only field of an owner reference that is used."""

    uid: str


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a stored GpuLedger."""

    name: str
    owner_references: tuple[OwnerUid, ...] = ()
    resource_version: str = ""


class GpuLedger(msgspec.Struct, frozen=True):
    """One stored GpuLedger."""

    metadata: Metadata
    status: Status | None = None


class StoredLedger(msgspec.Struct, frozen=True, gc=False):
    """The remembered part of a stored GpuLedger: enough to tell whether we wrote it."""

    owners: tuple[str, ...]
    """UIDs."""
    digest: bytes = b""
    """Digest of the status; empty without one."""
    conditions: tuple[Condition, ...] = ()
    transition: int = 0

    @classmethod
    def of(cls, ledger: GpuLedger) -> StoredLedger:
        """Return the remembered part of a GpuLedger that was read."""
        owners, status = tuple([owner.uid for owner in ledger.metadata.owner_references]), ledger.status
        if status is None:
            return cls(owners)
        return cls(owners, digest_of(status), status.conditions, status.lease_transition)


def digest_of(status: Status) -> bytes:
    """Return the digest by which equal statuses are recognised."""
    return hashlib.blake2b(_encode(status), digest_size=16).digest()


def gpu_ledgers() -> Resource[GpuLedger]:
    """All GpuLedgers, to watch; an unreadable one is written again as if it were missing."""
    reader = ObjectReader[GpuLedger, GpuLedger](GpuLedger, lambda found: found, lambda _name, _reason: None)
    return Resource("gpuledgers", GPU_LEDGERS_PATH, reader)


def status_of(view: NodeView, transition: int, now: str, before: tuple[Condition, ...]) -> Status:
    """Return the status of a node; `now` (RFC 3339) is the time of conditions that differ from `before`."""
    gpus = tuple(map(_gpu_status, view.gpus))
    pooled = sum(gpu.capacity for gpu in view.gpus if gpu.index is None)
    free = [gpu.free for gpu in view.gpus]
    return Status(
        lease_transition=transition,
        gpu_count=sum(gpu.index is not None and gpu.profile is None for gpu in gpus)
        + pooled // max(1, view.slices_per_gpu),
        slices_per_gpu=view.slices_per_gpu,
        used=_bounded(view.used),
        free=_bounded(sum(free)),
        largest_free=min(view.slices_per_gpu, max(free, default=0)),
        over=_bounded(view.over),
        gpu_memory_mib=view.gpu_mib,
        product=view.product,
        conditions=_conditions(view, now, before),
        gpus=gpus,
        unlisted=_bounded_rest(view.unlisted),
        claimable=_card_sums(view.cards) if view.cards else None,
        cards=msgspec.convert(view.cards, tuple[CardStatus, ...], from_attributes=True),
    )


def _card_sums(cards: Sequence[CardView]) -> CardSums:
    return CardSums(
        len(cards),
        sum([card.memory_mib for card in cards]),
        sum([card.claimed_mib for card in cards]),
        sum([card.free_mib for card in cards]),
    )


def _gpu_status(gpu: GpuView) -> GpuStatus:
    has_profile = isinstance(gpu.unit, Profile)
    return GpuStatus(
        gpu.capacity,
        _bounded(gpu.used),
        _bounded(gpu.free),
        _bounded(gpu.over),
        None if has_profile else gpu.index,
        gpu.name if has_profile else None,
        gpu.cordoned,
        gpu.memory_mib,
        tuple(
            [each if each.slices <= _MOST else dataclasses.replace(each, slices=_MOST) for each in gpu.shares]
        ),
        _bounded_rest(gpu.unlisted),
        gpu.model,
    )


def _bounded(amount: int) -> int:
    """Return an amount within the resource's limit: pods that set nodeName may request any amount."""
    return max(-_MOST, min(_MOST, amount))


def _bounded_rest(rest: Unlisted | None) -> Unlisted | None:
    return rest and Unlisted(rest.count, _bounded(rest.used), _bounded(rest.held))


def _index(gpu: GpuStatus) -> int | None:
    if gpu.profile is None:
        return gpu.index
    return index_of(profile_of_resource(MIG_RESOURCE_PREFIX + gpu.profile) or POOL)


def view_of(ledger: GpuLedger) -> NodeView | None:
    """Return the view of a published node; None if nothing has been published yet."""
    status = ledger.status
    if status is None:
        return None
    usable = any(c.type == "Usable" and c.status == "True" for c in status.conditions)
    gpus = tuple(
        GpuView(
            _index(gpu),
            gpu.capacity,
            gpu.shares,
            gpu.cordoned,
            gpu.memory_mib,
            gpu.unlisted,
            usable,
            gpu.model,
        )
        for gpu in status.gpus
    )
    return NodeView(
        ledger.metadata.name,
        usable,
        status.slices_per_gpu,
        status.gpu_memory_mib,
        status.product,
        gpus,
        status.unlisted,
        tuple([_card_view(ledger.metadata.name, card) for card in status.cards]),
    )


def _card_view(node: str, card: CardStatus) -> CardView:
    shares = tuple([CardShare(**msgspec.structs.asdict(each)) for each in card.shares])
    return CardView(node=node, **{**msgspec.structs.asdict(card), "shares": shares})


def manifest(name: str, node_uid: str) -> dict[str, Any]:
    """The object without its status; its owner is the Node, so that both are deleted together."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "GpuLedger",
        "metadata": {"name": name, "ownerReferences": [owner]},
    }


def status_manifest(name: str, status: Status) -> dict[str, Any]:
    """The object with only its status, for the status subresource."""
    content = _without_none(msgspec.to_builtins(status))
    content["gpus"] = [_without_none(gpu) for gpu in content["gpus"]]
    for share in (share for gpu in content["gpus"] for share in gpu["shares"] if not share["queue"]):
        del share["queue"]
    if not content["cards"]:
        # An API server that has the resource of an earlier release would reject fields that it does not know.
        del content["cards"]
    return {"apiVersion": API_VERSION, "kind": "GpuLedger", "metadata": {"name": name}, "status": content}


def _conditions(view: NodeView, now: str, before: tuple[Condition, ...]) -> tuple[Condition, ...]:
    over = view.over
    found = (
        Condition("Usable", "True", "Ready", "the node takes pods")
        if view.usable
        else Condition("Usable", "False", "NotReady", "the node is not ready, cordoned or being removed"),
        Condition("OverCommitted", "True", "CapacityLost", f"pods hold {over} slices more than exist")
        if over
        else Condition("OverCommitted", "False", "WithinCapacity", "pods hold no more slices than exist"),
        _takes_fractions(view),
    )
    since = {(condition.type, condition.status): condition.last_transition_time for condition in before}
    return tuple(
        msgspec.structs.replace(each, last_transition_time=since.get((each.type, each.status), now))
        for each in found
    )


def _takes_fractions(view: NodeView) -> Condition:
    if not view.gpus:
        return Condition("TakesFractions", "True", "Claimable", "claims can take parts of its cards")
    lacks = node_problems.of_view(view)
    if lacks is not None:
        return Condition("TakesFractions", "False", lacks, node_problems.message(lacks, view.name))
    return Condition("TakesFractions", "True", "Sliced", "fractions can be placed")


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out unknown values: the schema has only numbers and texts."""
    return {key: value for key, value in fields.items() if value is not None}
