"""Slices that new pods cannot get, because containers use more of their GPU than kubelet and scheduler count.

After `slicesPerGpu` grew, a container with four of eight slices, half of a GPU, counts as four of sixteen.
The other four are withheld until it ends. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from agent.gpu import Gpu
from agent.shares import slice_ids, uuid_of


def withheld_ids(
    gpus: Iterable[Gpu], divisions: Mapping[frozenset[str], int], held: Collection[str], slices_per_gpu: int
) -> frozenset[str]:
    """Return the device IDs that no new pod can get.

    Args:
        gpus: the GPUs that are offered.
        divisions: device IDs of each allocation, with the slices per GPU at that time.
        held: all allocated device IDs; only other IDs are withheld.
        slices_per_gpu: the current number.
    """
    given: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for ids, size in divisions.items():
        for each in ids:
            given[uuid_of(each), size].add(each)
    more: Counter[str] = Counter()
    for (uuid, size), of_size in given.items():
        more[uuid] += max(0, -(-len(of_size) * slices_per_gpu // size) - len(of_size))
    free = {gpu.uuid: [each for each in slice_ids(gpu, slices_per_gpu) if each not in held] for gpu in gpus}
    return frozenset(
        each for uuid, ids in free.items() for each in ids[len(ids) - min(more[uuid], len(ids)) :]
    )
