"""Which GPUs of a node span the fewest NUMA nodes, of those that a pod of several GPUs may equally well have.

Each NUMA node has a part of the machine's CPUs and memory, and some of its GPUs are nearer to it than to the
others. Locality only decides between equals: it never costs a pod its place, nor other pods room.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, combinations

from ledger.facts import NodeFact
from modes.fraction import Fraction
from modes.packing import SlicePrices, lost_on_each

MAX_NUMA_NODES = 8
"""Of one machine that are told apart: at most 254 sets of them are compared for one node."""
_UNKNOWN = -1
"""GPUs of which the agent does not tell are each on a NUMA node of their own: -1, -2, ..."""


def asks_for_several(fraction: Fraction) -> bool:
    """Whether a pod gets the same part of several GPUs, so that it matters which of them lie together."""
    return fraction.gpus > 1 and not fraction.is_apart


def numa_nodes(fact: NodeFact | None) -> Mapping[int, int]:
    """Return the NUMA node by GPU index, as the node's agent tells; empty where that decides nothing."""
    return _by_index(fact.cards, fact.card_numa) if fact is not None and fact.card_numa else {}


@lru_cache(maxsize=4096)
def _by_index(cards: tuple[tuple[int, int], ...], nodes: tuple[int, ...]) -> dict[int, int]:
    return {index: node for (index, _), node in zip(cards, nodes, strict=False)}


def span(indices: tuple[int, ...], nodes: Mapping[int, int]) -> int:
    """Return how many NUMA nodes some GPUs are on."""
    return len({nodes.get(index, _UNKNOWN - index) for index in indices})


def on_fewest(
    left: Mapping[int, int], nodes: Mapping[int, int], fraction: Fraction, prices: SlicePrices
) -> Mapping[int, int]:
    """Return what is left of the GPUs of the fewest NUMA nodes that lose no more than those of all would.

    Args:
        left: slices left by GPU index, of the GPUs that the pod may have.
        nodes: NUMA node by GPU index.
        fraction: the pod's, of several GPUs.
        prices: of free slices now.
    """
    groups: dict[int, list[int]] = {}
    for index, slices in left.items():
        if slices >= fraction.slices_on_each:
            groups.setdefault(nodes.get(index, _UNKNOWN - index), []).append(index)
    if not 1 < len(groups) <= MAX_NUMA_NODES:
        return left
    least = lost_on_each(tuple(left.values()), fraction, prices)
    for size in range(1, min(fraction.gpus, len(groups))):
        for chosen in combinations(sorted(groups), size):
            indices = sorted(chain.from_iterable(groups[node] for node in chosen))
            if len(indices) < fraction.gpus:
                continue
            if lost_on_each([left[index] for index in indices], fraction, prices) == least:
                kept = {*indices}
                return {index: slices for index, slices in left.items() if index in kept}
    return left
