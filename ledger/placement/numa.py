"""For a pod of several GPUs, prefers those GPUs of a node that span the fewest NUMA nodes.

Each NUMA node has some of the machine's CPUs and memory, and is nearer to some of its GPUs. Locality only
breaks ties: it never costs a pod its place, nor other pods room.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, combinations

from ledger.placement.packing import lost_on_each
from ledger.placement.shadow_prices import ShadowPrices
from modes.facts import NodeFact
from modes.fraction import Fraction

MAX_NUMA_NODES = 8
"""NUMA nodes of one machine that are distinguished: at most 254 sets of them are compared per node."""
_UNKNOWN = -1
"""A GPU whose NUMA node the agent does not report counts as on a NUMA node of its own: -1, -2, ..."""


def asks_for_several(fraction: Fraction) -> bool:
    """Whether a pod gets equal parts of several GPUs, so that their locality matters."""
    return fraction.gpus > 1 and not fraction.is_apart


def numa_nodes(fact: NodeFact | None) -> Mapping[int, int]:
    """Return the NUMA node of each GPU index, as the agent reports it; empty if that decides nothing."""
    return _by_index(fact.cards, fact.card_numa) if fact is not None and fact.card_numa else {}


@lru_cache(maxsize=4096)
def _by_index(cards: tuple[tuple[int, int], ...], nodes: tuple[int, ...]) -> dict[int, int]:
    return {index: node for (index, _), node in zip(cards, nodes, strict=False)}


def span(indices: tuple[int, ...], nodes: Mapping[int, int]) -> int:
    """Return the number of NUMA nodes that some GPUs are on."""
    return len({nodes.get(index, _UNKNOWN - index) for index in indices})


def on_fewest(
    left: Mapping[int, int], nodes: Mapping[int, int], fraction: Fraction, prices: ShadowPrices
) -> Mapping[int, int]:
    """Return the free slices of GPUs on the fewest NUMA nodes that cost no more than the best of all.

    Args:
        left: free slices by GPU index, of the GPUs that the pod accepts.
        nodes: NUMA node by GPU index.
        fraction: the pod's fraction, of several GPUs.
        prices: current prices of free slices.
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
