"""One node for the page: its GPUs, and the cards that DRA drivers offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ledger.card_view import CardShare, CardView
from ledger.use import PodUses, ShareUse
from ledger.view import GpuView, Holding, NodeView
from modes.mig_profiles import card_of_product
from web.source import About, AdmittedPod, NodeNotes, id_of

OTHER = "other"


class HeldShare(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Slices of a GPU with one holder."""

    kind: str
    slices: int
    namespace: str = ""
    pod: str = ""
    queue: str = ""
    mib: int = 0
    """Part of the GPU's memory; 0 if its size is unknown."""
    created: str = ""
    pods: int = 0
    """Number of pods that the share sums up; 0 for a single pod."""
    used: int | None = None
    """MiB of GPU memory that the pod uses of it; None if that is not measured."""
    peak: int = 0
    """The most MiB that it was seen to use."""
    limit: int = 0
    """MiB that it may use."""
    busy: int | None = None
    """Per cent of the last hour, or of the time since `since`, that its kernels ran; None if unknown."""
    since: str = ""
    """When it was first measured."""
    id: str = ""
    """Of a reservation: names of pods in creation are not always known, and replicas have the same."""
    idle: int = 0
    """Seconds without a kernel, if that is longer than the pod's policy says; else 0."""


class GpuCell(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU, or a node's pool."""

    capacity: int
    index: int | None = None
    profile: str = ""
    """Profile of MIG instances or of a pool of them; replaces the index."""
    cordoned: bool = False
    over: int = 0
    shares: tuple[HeldShare, ...] = ()
    unhealthy: bool = False
    """Its node's agent reports a fault. A GPU whose device plugin reports one has the capacity 0."""
    mib: int = 0
    """MiB of the card, if it is not that of the node's others."""
    card: str = ""
    """Name of a card that a DRA driver offers; replaces the index. Its amounts are MiB instead of slices."""
    free: int = 0
    """MiB of it for new claims."""
    taint: str = ""
    """What keeps pods away from it, so that it is `unhealthy`."""


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One node; only its name if it has no GPUs or no longer exists."""

    node: str
    gone: bool = False
    usable: bool = True
    held: bool = False
    """Its agent does not serve, so that a taint keeps new pods away."""
    product: str = ""
    mib: int = 0
    slices: int = 8
    """Into which each GPU is divided."""
    gpus: tuple[GpuCell, ...] = ()


def node_row(view: NodeView, about: About) -> NodeRow:
    """Return a node as the page shows it."""
    known = _Known(about, about.use(view.name), about.notes(view.name))
    first = view.cards[0] if view.cards else None
    mib = view.gpu_mib or (first.memory_mib if first is not None else 0)
    gpus = [_cell(view, gpu, known) for gpu in view.gpus]
    cards = [_card_cell(card, mib, known) for card in view.cards]
    return NodeRow(
        view.name,
        usable=view.usable,
        held=known.notes.is_held,
        product=view.product or (first.model if first is not None else ""),
        mib=mib,
        slices=view.slices_per_gpu,
        gpus=(*gpus, *cards),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the process knows of one node besides the ledger."""

    about: About
    use: PodUses
    notes: NodeNotes


def _cell(view: NodeView, gpu: GpuView, known: _Known) -> GpuCell:
    profile, node_mib = view.profile_of(gpu), view.gpu_mib or 0
    index, name, mib, parts = gpu.index, "", gpu.memory_mib or node_mib, max(1, view.slices_per_gpu)
    if profile is not None:
        index, name, mib, parts = None, profile.name, profile.mib(card_of_product(view.product or "")), 1
    shares = [_share(share, gpu.index, (mib, parts), known) for share in gpu.shares]
    if (rest := gpu.unlisted) is not None:
        shares.append(HeldShare(OTHER, rest.used, mib=mib * rest.used // parts, pods=rest.count))
    return GpuCell(
        gpu.capacity,
        index,
        name,
        gpu.cordoned,
        gpu.over,
        tuple(shares),
        unhealthy=index in known.notes.unhealthy,
        mib=mib if profile is None and mib != node_mib else 0,
    )


def _card_cell(card: CardView, usual_mib: int, known: _Known) -> GpuCell:
    shares = [_claimed(share, card.uuid, known) for share in card.shares]
    unlisted = card.claimed_mib - sum([share.memory_mib for share in card.shares])
    if unlisted > 0:
        shares.append(HeldShare(OTHER, unlisted, mib=unlisted, pods=card.claims - len(card.shares)))
    return GpuCell(
        card.memory_mib,
        over=max(0, card.claimed_mib - card.memory_mib),
        shares=tuple(shares),
        unhealthy=bool(card.taint),
        mib=card.memory_mib if card.memory_mib != usual_mib else 0,
        card=card.device,
        free=card.free_mib,
        taint=card.taint,
    )


def _claimed(share: CardShare, uuid: str, known: _Known) -> HeldShare:
    return HeldShare(
        "holder",
        share.memory_mib,
        share.namespace,
        share.pod or f"claim {share.claim}",
        share.queue,
        share.memory_mib,
        known.about.created(share.namespace, share.pod) if share.pod else "",
        **_use_of(known.use.of_card(share.namespace, share.pod, uuid)),
    )


def _share(share: Holding, index: int | None, size: tuple[int, int], known: _Known) -> HeldShare:
    (mib, per_gpu), about, namespace = size, known.about, share.namespace
    told: dict[str, Any] = {"id": id_of(share.name)}
    pod = about.admitted(share.name)
    if share.kind != "reservation":
        pod = AdmittedPod(share.name, about.created(namespace, share.name))
        told = _use_of(known.use.of(namespace, share.name, index))
    part = mib * share.slices // per_gpu
    return HeldShare(share.kind, share.slices, namespace, pod.name, share.queue, part, pod.created, **told)


def _use_of(use: ShareUse | None) -> dict[str, Any]:
    if use is None:
        return {}
    return {
        "used": use.used_mib,
        "peak": use.peak_mib,
        "limit": use.memory_mib,
        "busy": use.busy_percent,
        "since": use.since,
        "idle": use.idle_seconds or 0,
    }
