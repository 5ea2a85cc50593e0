"""Reads from a node's status and labels how many slices, GPUs and MIG instances it offers."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import GPU_COUNT_LABEL, GPU_REPLICAS_LABEL, label_number
from kube.quantity import whole
from modes.resource_names import ResourceNames
from modes.units import Gpu, Profile


def slices_by_index(amounts: Mapping[str, str | int], names: ResourceNames) -> tuple[tuple[int, int], ...]:
    """Return (index, slices) of each GPU, by index, from a node's allocatable or capacity.

    Raises:
        ValueError: an amount is not a whole number.
    """
    return tuple(
        sorted(
            (unit, whole(amount))
            for name, amount in amounts.items()
            if isinstance(unit := names.unit(name), Gpu)
        )
    )


def instances_by_number(
    allocatable: Mapping[str, str | int], names: ResourceNames
) -> tuple[tuple[int, int], ...]:
    """Return (number of a profile, MIG instances), by number, from a node's allocatable.

    The kubelet keeps reporting zero for profiles that a node no longer has, so these are left out. If all GPU
    amounts are zero, the device plugin is away, and all profiles are returned.

    Raises:
        ValueError: an amount is not a whole number.
    """
    found = [
        (unit.number, whole(amount))
        for name, amount in allocatable.items()
        if isinstance(unit := names.unit(name), Profile)
    ]
    if not found:
        return ()
    is_away = not any(whole(amount) for name, amount in allocatable.items() if names.counts(name))
    return tuple(sorted(each for each in found if each[1] or is_away))


def pooled_slices(allocatable: Mapping[str, str | int], names: ResourceNames) -> int:
    """Return the slices of a node's pool.

    Raises:
        ValueError: an amount is not a whole number.
    """
    return sum(whole(allocatable[name]) for name in names.pooled if name in allocatable)


def pooled_gpus(pooled: int, labels: Mapping[str, str]) -> int:
    """Return the number of GPUs behind a pool, by the labels of GPU feature discovery; 0 if unknown."""
    replicas = label_number(labels.get(GPU_REPLICAS_LABEL))
    return pooled // replicas if replicas else min(pooled, label_number(labels.get(GPU_COUNT_LABEL)) or 0)
