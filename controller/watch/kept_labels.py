"""Labels of GPUs that feature discovery takes off a node for a moment, while it starts again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from controller.watch.resources import SeenNode
from kube.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, GPU_REPLICAS_LABEL

KEPT_SECONDS = 600.0
"""How long the last values hold. Then pods that need them are denied, from the next report of the node on."""
_OF_GPUS = (GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, GPU_COUNT_LABEL, GPU_REPLICAS_LABEL)


class KeptLabels:
    """The nodes as they were when they last had all their labels, by a monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, tuple[SeenNode, float | None]] = {}
        """By name, with the time since when it lacks some; None while it has them."""

    def kept(self, node: SeenNode) -> SeenNode:
        """Return a node with the labels of its GPUs that it had until recently."""
        name, now = node.fact.name, self._clock()
        last, gone = self._last.get(name, (node, None))
        had = {key: last.fact.labels[key] for key in _OF_GPUS if key in last.fact.labels}
        is_whole = last.uid != node.uid or had.keys() <= node.fact.labels.keys()
        if is_whole or (gone is not None and now - gone > KEPT_SECONDS):
            self._last[name] = node, None
            return node
        self._last[name] = last, now if gone is None else gone
        fact = msgspec.structs.replace(
            node.fact,
            labels=had | node.fact.labels,
            gpu_mib=node.fact.gpu_mib or last.fact.gpu_mib,
            pooled_gpus=node.fact.pooled_gpus or (last.fact.pooled_gpus if node.fact.pool else 0),
        )
        return msgspec.structs.replace(node, fact=fact)

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self._last.pop(name, None)
