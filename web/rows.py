"""One node for the page. Pods of namespaces that a viewer may not see are summed up as "other"."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ledger.view import GpuView, NodeView
from modes.units import POOL, Profile, profile_of_product
from web.source import Viewer

OTHER = "other"
CreatedAt = Callable[[str, str], str]


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
    """Number of pods that the share sums up; 0 for a single pod, or if the number is not shown."""


class GpuCell(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU, or a node's pool."""

    capacity: int
    index: int | None = None
    profile: str = ""
    """Profile of MIG instances or of a pool of them; replaces the index."""
    cordoned: bool = False
    over: int = 0
    shares: tuple[HeldShare, ...] = ()
    twice: bool = False
    """A DRA driver offers it too, so that it is `cordoned`."""


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One node; only its name if it has no GPUs or no longer exists."""

    node: str
    gone: bool = False
    usable: bool = True
    product: str = ""
    mib: int = 0
    gpus: tuple[GpuCell, ...] = ()


def node_row(view: NodeView, viewer: Viewer, created: CreatedAt) -> NodeRow:
    """Return a node as a viewer may see it."""
    gpus = tuple([_cell(view, gpu, viewer, created) for gpu in view.gpus])
    return NodeRow(
        view.name, usable=view.usable, product=view.product or "", mib=view.gpu_mib or 0, gpus=gpus
    )


def _profile(view: NodeView, gpu: GpuView) -> Profile | None:
    """Return the profile of MIG instances; None for a GPU or for all GPUs."""
    unit = profile_of_product(view.product or "") if gpu.unit is POOL else gpu.unit
    return unit if isinstance(unit, Profile) else None


def _size(view: NodeView, gpu: GpuView, profile: Profile | None) -> tuple[int, int]:
    """Return MiB, and into how many slices they are divided; for MIG instances, those of one instance."""
    if profile is not None:
        return profile.mib(view.product or ""), 1
    return gpu.memory_mib or view.gpu_mib or 0, max(1, view.slices_per_gpu)


def _cell(view: NodeView, gpu: GpuView, viewer: Viewer, created: CreatedAt) -> GpuCell:
    profile = _profile(view, gpu)
    mib, per_gpu = size = _size(view, gpu, profile)
    own = [share for share in gpu.shares if viewer.namespace in {None, share.namespace}]
    shares = [
        HeldShare(
            share.kind,
            share.slices,
            share.namespace,
            share.name,
            share.queue,
            mib * share.slices // per_gpu,
            created(share.namespace, share.name),
        )
        for share in own
    ]
    shares += _others(gpu, len(own), viewer, size)
    index, name = (gpu.index, "") if profile is None else (None, profile.name)
    return GpuCell(gpu.capacity, index, name, gpu.cordoned, gpu.over, tuple(shares), gpu.offered_twice)


def _others(gpu: GpuView, own: int, viewer: Viewer, per_slice: tuple[int, int]) -> list[HeldShare]:
    """Return what all others hold as one share without their names; pods that are not listed are included."""
    rest = gpu.unlisted
    if len(gpu.shares) == own and rest is None:
        return []
    slices = sum([share.slices for share in gpu.shares if viewer.namespace not in {None, share.namespace}])
    slices += rest.used if rest is not None else 0
    pods = rest.count if rest is not None and viewer.namespace is None else 0
    return [HeldShare(OTHER, slices, mib=per_slice[0] * slices // per_slice[1], pods=pods)]
