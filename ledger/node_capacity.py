"""Counts what a node has to give: slices of each GPU and of its pool, the GPUs behind, MIG instances."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import GPU_COUNT_LABEL, GPU_REPLICAS_LABEL, label_number
from kube.quantity import whole
from modes.mig_instances import is_instance
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
            if (index := names.index(name)) is not None and not is_instance(index)
        )
    )


def instances_by_number(
    allocatable: Mapping[str, str | int], names: ResourceNames
) -> tuple[tuple[int, int], ...]:
    """Return the MIG instances of each profile by its number, from a node's allocatable.

    Of profiles that a node no longer has the kubelet goes on to state zero. Where it states nothing else of
    any GPU, the device plugin is away, and they count.

    Raises:
        ValueError: an amount is no whole number.
    """
    found = [
        (index, whole(amount))
        for name, amount in allocatable.items()
        if (index := names.index(name)) is not None and is_instance(index)
    ]
    if not found:
        return ()
    is_away = not any(whole(amount) for name, amount in allocatable.items() if names.counts(name))
    return tuple(sorted(each for each in found if each[1] or is_away))


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
