"""Slices of GPUs: their device IDs, the shares that a list of IDs stands for, and their memory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.gpu import Gpu

_SEPARATOR = "::"


class RefusedError(Exception):
    """Slices that cannot be allocated together; the text names them, the rule, and what to do."""


@dataclass(frozen=True, slots=True)
class Share:
    """Slices of one GPU in one container."""

    gpu: Gpu
    slices: int
    memory_mib: int | None
    """Memory that the container may use; None if it has all slices, and so no limit."""

    @property
    def usable_mib(self) -> int:
        """MiB that the container can use at most."""
        return self.memory_mib if self.memory_mib is not None else self.gpu.usable_mib


def slice_ids(gpu: Gpu, slices_per_gpu: int) -> tuple[str, ...]:
    """Return the device IDs of a GPU's slices."""
    return tuple(f"{gpu.uuid}{_SEPARATOR}{number}" for number in range(slices_per_gpu))


def uuid_of(slice_id: str) -> str:
    """Return the UUID of the GPU of a slice's device ID; for other plugins' IDs, any text."""
    return slice_id.rpartition(_SEPARATOR)[0]


def memory_mib(gpu: Gpu, slices: int, slices_per_gpu: int, reserve_mib: int) -> int | None:
    """Return the MiB of a share of the GPU's usable memory; None for a whole GPU.

    Raises:
        RefusedError: the reserve leaves nothing.
    """
    if slices == slices_per_gpu:
        return None
    mib = gpu.usable_mib * slices // slices_per_gpu - reserve_mib
    if mib <= 0:
        raise RefusedError(
            f"{slices} of {slices_per_gpu} slices of GPU {gpu.index} ({gpu.usable_mib} MiB) leave no memory"
            f" after memory.reserveMiB {reserve_mib}: ask for more slices"
        )
    return mib


def shares_of(
    ids: Iterable[str], gpus: Mapping[str, Gpu], slices_per_gpu: int, reserve_mib: int
) -> list[Share]:
    """Return the shares that a list of device IDs stands for, by GPU index.

    Args:
        ids: device IDs of one Allocate.
        gpus: GPUs of the resource, by UUID.
        slices_per_gpu: number of IDs of each GPU.
        reserve_mib: subtracted from each share.

    Raises:
        RefusedError: an ID is unknown, or slices of several GPUs are not whole GPUs.
    """
    counts: Counter[str] = Counter()
    for each in sorted(set(ids)):
        gpu = gpus.get(uuid_of(each))
        if gpu is None or each not in slice_ids(gpu, slices_per_gpu):
            raise RefusedError(f'device "{each}" is not one of this node\'s slices: delete the pod')
        counts[gpu.uuid] += 1
    if len(counts) > 1 and any(count != slices_per_gpu for count in counts.values()):
        spread = ", ".join(f"{count} of GPU {gpus[uuid].index}" for uuid, count in counts.items())
        raise RefusedError(f"a share cannot span GPUs ({spread}): wait until one GPU has room for it")
    shares = [
        Share(gpus[uuid], count, memory_mib(gpus[uuid], count, slices_per_gpu, reserve_mib))
        for uuid, count in counts.items()
    ]
    return sorted(shares, key=lambda share: share.gpu.index)


def preferred_ids(available: Sequence[str], must: Sequence[str], size: int, slices_per_gpu: int) -> list[str]:
    """Choose IDs of one GPU for a share, and of as few GPUs as possible for whole ones.

    The GPU with the least sufficient room is chosen, so that large shares find room later. If none has
    enough, the emptiest ones are combined; Allocate refuses shares that span GPUs.
    """
    chosen = list(dict.fromkeys(must))[:size]
    free: dict[str, list[str]] = {}
    for each in sorted(set(available) - set(chosen)):
        free.setdefault(uuid_of(each), []).append(each)
    begun = {uuid_of(each) for each in chosen}

    def fitness(uuid: str) -> tuple[bool, bool, int, str]:
        room, wanted = len(free[uuid]), size - len(chosen)
        fits = room >= min(wanted, slices_per_gpu)
        return (uuid not in begun, not fits, room if fits else -room, uuid)

    while len(chosen) < size and free:
        uuid = min(free, key=fitness)
        chosen += free.pop(uuid)[: size - len(chosen)]
    return chosen
