"""Reads from a node's status and labels how many slices, GPUs and MIG instances it offers."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import GPU_COUNT_LABEL, GPU_REPLICAS_LABEL, GPU_RESOURCE, label_number
from kube.quantity import whole
from modes.resource_names import ResourceNames
from modes.units import POOL, Gpu, Profile


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


def pool_of(
    amounts: Mapping[str, str | int],
    capacity: Mapping[str, str | int],
    labels: Mapping[str, str],
    names: ResourceNames,
) -> tuple[str, int, int]:
    """Return the name, slices and number of GPUs of a node's pool; an empty name without a pool.

    Of several names, the one with most slices is the pool. A node that offers nothing else keeps its pool
    without slices while its device plugin is away, if its capacity or its labels still show GPUs.

    Args:
        amounts: the node's allocatable.
        capacity: its capacity, which counts a device plugin that is away for some minutes.
        labels: its labels, of which those of GPU feature discovery state the number of GPUs; 0 if none does.
        names: the names to count.

    Raises:
        ValueError: an amount is not a whole number.
    """
    found = {
        name: (whole(amounts[name]), whole(capacity.get(name, 0)), name != GPU_RESOURCE)
        for name in names.pooled
        if name in amounts
    }
    name = max(found, key=lambda each: found[each], default="")
    slices, once, _ = found.get(name, (0, 0, False))
    counted, replicas = (
        label_number(labels.get(each)) or 0 for each in (GPU_COUNT_LABEL, GPU_REPLICAS_LABEL)
    )
    if slices:
        return name, slices, slices // replicas if replicas else min(slices, counted)
    has_others = any(names.unit(each) not in {None, POOL} for each in amounts)
    if not name or has_others or not (once or counted):
        return "", 0, 0
    return name, 0, once // replicas if once and replicas else counted
