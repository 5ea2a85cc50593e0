"""Slices that are kept from new pods: containers hold more of their GPU than kubelet and scheduler count.

After `slicesPerGpu` grew, a container that was given four of eight slices, half of a GPU, counts as four of
sixteen. What it holds beyond them is withheld until it ends. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from agent.gpu import Gpu
from agent.shares import slice_ids, uuid_of


def withheld_ids(
    gpus: Iterable[Gpu], divisions: Mapping[frozenset[str], int], held: Collection[str], slices_per_gpu: int
) -> frozenset[str]:
    """Return device ids that no new pod may get.

    Args:
        gpus: those that are offered.
        divisions: what containers were given, with the slices of their GPU then.
        held: all ids that containers hold; others are taken first.
        slices_per_gpu: of now.
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
