"""Which index a pod gets when no node has room now: the one with the least waiting for its capacity."""

from __future__ import annotations

from collections.abc import Iterable
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
class Kinds:
    """Eligible nodes summed up: what there is to wait for."""

    capacity: dict[tuple[int, int | None], int]
    """Slices by MiB of the share and index (None: the pool)."""
    shapes: dict[tuple[int, tuple[int, ...]], int]
    """(MiB of the share, indices of one node) to MiB of one GPU."""


def kinds(nodes: Iterable[NodeFact], ask: Ask) -> Kinds:
    """Sum up nodes that could hold the pod some day. Those that could today go first, if there are any."""
    nodes = list(nodes)
    found = Kinds({}, {})
    for node in [node for node in nodes if node.usable] or nodes:
        gpu_mib = node.gpu_mib or 0
        share = 0 if ask.fraction.is_whole else ask.fraction.share_mib(gpu_mib)
        gpus: tuple[tuple[int | None, int], ...] = (
            ((None, node.pooled),) if ask.mode == "pooled" else node.gpus
        )
        for index, slices in gpus:
            usable = 0 if index in node.cordoned else slices
            found.capacity[share, index] = found.capacity.get((share, index), 0) + usable
        indices = () if ask.mode == "pooled" else tuple(index for index, _ in node.gpus)
        found.shapes.setdefault((share, indices), gpu_mib)
    return found


def least_backlog(found: Kinds, ask: Ask, backlog: Backlog, values: MemoryValues) -> Wait:
    """Choose what to wait for; of equals the smallest share, then the lowest index."""

    def load(share: int, gpu_mib: int, index: int | None) -> int:
        waiting = backlog.slices(index, values.of_share(ask.fraction, gpu_mib)) + ask.fraction.slices_on_each
        capacity = found.capacity[share, index]
        return waiting * _PRECISION // capacity if capacity else waiting * _PRECISION**2

    ranked = []
    for (share, indices), gpu_mib in found.shapes.items():
        loads: list[tuple[int, int]] = sorted((load(share, gpu_mib, index), index) for index in indices)
        taken = loads[: ask.fraction.gpus]
        total = sum(value for value, _ in taken) if taken else load(share, gpu_mib, None)
        ranked.append((total, share, tuple(sorted(index for _, index in taken)), gpu_mib))
    _, _, chosen, gpu_mib = min(ranked)
    return Wait(chosen, gpu_mib)


def assumed(assume: Assumption, ask: Ask, backlog: Backlog) -> Wait:
    """Choose an index of nodes that do not exist yet; the caller has checked that they have enough GPUs."""
    if ask.mode == "pooled":
        return Wait((), assume.gpu_mib)
    waiting = sorted((backlog.slices(index, ()), index) for index in range(assume.gpus_per_node))
    return Wait(tuple(sorted(index for _, index in waiting[: ask.fraction.gpus])), assume.gpu_mib)
