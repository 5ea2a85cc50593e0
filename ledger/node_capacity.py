"""Counts what a node has to give: slices of each GPU, slices of its pool, and the GPUs behind those."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import GPU_COUNT_LABEL, GPU_REPLICAS_LABEL, label_number
from kube.quantity import whole
from modes.resource_names import ResourceNames


def slices_by_index(amounts: Mapping[str, str | int], names: ResourceNames) -> tuple[tuple[int, int], ...]:
    """Return the slices of each GPU by its index, from a node's allocatable or capacity.

    Raises:
        ValueError: an amount is no whole number.
    """
    return tuple(
        sorted(
            (index, whole(amount))
            for name, amount in amounts.items()
            if (index := names.index(name)) is not None
        )
    )


def pooled_slices(allocatable: Mapping[str, str | int], names: ResourceNames) -> int:
    """Return the slices of a node's pool.

    Raises:
        ValueError: an amount is no whole number.
    """
    return sum(whole(allocatable[name]) for name in names.pooled if name in allocatable)


def pooled_gpus(pooled: int, labels: Mapping[str, str]) -> int:
    """Return the GPUs that a pool's slices are of, as far as the labels of GPU feature discovery say."""
    replicas = label_number(labels.get(GPU_REPLICAS_LABEL))
    return pooled // replicas if replicas else min(pooled, label_number(labels.get(GPU_COUNT_LABEL)) or 0)
