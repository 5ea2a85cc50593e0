"""Which index a pod gets when no node has room now: the one with the least waiting for its capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ledger.ask import Ask, Assumption
from ledger.backlog import Backlog
from ledger.facts import NodeFact
from ledger.memory_values import MemoryValues

_PRECISION = 10**6


@dataclass(frozen=True, slots=True)
class Wait:
    """The index or indices to wait for, on GPUs of a kind."""

    indices: tuple[int, ...]
    gpu_mib: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Eligible nodes whose GPUs make the same MiB of the pod's share, summed up."""

    capacity: dict[int | None, int]
    """Slices by index (None: the pool)."""
    shapes: dict[tuple[int, ...], int]
    """Indices of one node to MiB of one GPU."""


Kinds = dict[int, Kind]
"""What there is to wait for, by MiB of the share."""


def kinds(nodes: Iterable[NodeFact], ask: Ask) -> Kinds:
    """Sum up nodes that could hold the pod some day. Those that could today go first, if there are any."""
    nodes = list(nodes)
    found: Kinds = {}
    for node in [node for node in nodes if node.usable] or nodes:
        gpu_mib = node.gpu_mib or 0
        share = 0 if ask.fraction.is_whole else ask.fraction.share_mib(gpu_mib)
        kind = found.setdefault(share, Kind({}, {}))
        gpus: tuple[tuple[int | None, int], ...] = (
            ((None, node.pooled),) if ask.mode == "pooled" else node.gpus
        )
        for index, slices in gpus:
            usable = 0 if index in node.cordoned else slices
            kind.capacity[index] = kind.capacity.get(index, 0) + usable
        indices = () if ask.mode == "pooled" else tuple(index for index, _ in node.gpus)
        kind.shapes.setdefault(indices, gpu_mib)
    return found


def least_backlog(found: Kinds, ask: Ask, backlog: Backlog, values: MemoryValues) -> Wait:
    """Choose what to wait for; of equals the smallest share, then the lowest index."""
    gpus, ranked = ask.fraction.gpus, []
    for share, kind in found.items():
        accepted = values.of_share(ask.fraction, next(iter(kind.shapes.values())))
        load = _loads(kind, ask.fraction.slices_on_each, backlog.slices(accepted))
        for indices, gpu_mib in kind.shapes.items():
            taken = sorted([(load[index], index) for index in indices])[:gpus]
            total = sum([value for value, _ in taken]) if taken else load[None]
            ranked.append((total, share, tuple(sorted([index for _, index in taken])), gpu_mib))
    _, _, chosen, gpu_mib = min(ranked)
    return Wait(chosen, gpu_mib)


def _loads(kind: Kind, slices: int, waiting: Mapping[int | None, int]) -> dict[int | None, int]:
    """By index what would wait with so many slices more, for the capacity behind it."""
    loads = {}
    for index, capacity in kind.capacity.items():
        load = (waiting.get(index, 0) + slices) * _PRECISION
        loads[index] = load // capacity if capacity else load * _PRECISION
    return loads


def assumed(assume: Assumption, ask: Ask, backlog: Backlog) -> Wait:
    """Choose an index of nodes that do not exist yet; the caller has checked that they have enough GPUs."""
    if ask.mode == "pooled":
        return Wait((), assume.gpu_mib)
    waiting = backlog.slices(())
    loads = sorted((waiting.get(index, 0), index) for index in range(assume.gpus_per_node))
    return Wait(tuple(sorted(index for _, index in loads[: ask.fraction.gpus])), assume.gpu_mib)
