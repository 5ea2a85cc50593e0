"""For a pod of several GPUs, prefers those GPUs of its node that span the fewest NUMA nodes.

Each NUMA node has some of the machine's CPUs and memory, and is nearer to some of its GPUs. Locality only
breaks ties: it never costs a pod its place, nor other pods room.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from ledger.placement.prices import Prices, lost
from modes.facts import NodeFact
from modes.fraction import Fraction

MAX_NUMA_NODES = 8
"""NUMA nodes of one machine that are distinguished: at most 254 sets of them are compared per node."""


def on_fewest(
    left: Mapping[int, int], node: NodeFact, fraction: Fraction, prices: Prices
) -> Mapping[int, int]:
    """Return the free slices of GPUs on the fewest NUMA nodes that cost no more than the best of all.

    Args:
        left: free slices by GPU index, of the GPUs that the pod accepts.
        node: the node, with the NUMA nodes that its agent reports.
        fraction: the pod's fraction, the same part of each GPU.
        prices: prices of free slices on the node.
    """
    known = {index: numa for (index, _), numa in zip(node.cards, node.card_numa, strict=False)}
    # A GPU whose NUMA node is unknown counts as on one of its own.
    by_gpu = {index: known.get(index, -1 - index) for index in left if left[index] >= fraction.slices_on_each}
    numa_nodes = sorted({*by_gpu.values()})
    if not known or not 1 < len(numa_nodes) <= MAX_NUMA_NODES:
        return left
    least = lost(tuple(left.values()), fraction, prices)
    for size in range(1, min(fraction.gpus, len(numa_nodes))):
        for chosen in combinations(numa_nodes, size):
            near = {index: left[index] for index, numa in by_gpu.items() if numa in chosen}
            if len(near) >= fraction.gpus and lost(tuple(near.values()), fraction, prices) == least:
                return near
    return left
