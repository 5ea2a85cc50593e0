"""Whether a waiting pod's own nodeSelector, affinity and tolerations accept a node, for messages to users."""

from __future__ import annotations

from kube.matching import TolerationIndex, labels_match
from kube.scheduling import Constraints
from modes.facts import NodeFact

OWN_DEMANDS = "nodeSelector, affinity or tolerations"


class OwnDemands:
    """Compares nodes with the demands of one pod. Users can write any: the caller bounds their length."""

    def __init__(self, constraints: Constraints) -> None:
        self._constraints = constraints
        self._tolerations = TolerationIndex(constraints.tolerations)

    def accept(self, node: NodeFact) -> bool:
        """Return whether the pod accepts a node."""
        return labels_match(self._constraints, node.name, node.labels) and self._tolerations.tolerates(
            node.taints
        )

    def why_not(self, node: NodeFact | None) -> str:
        """Return why the pod cannot run on a node now; "" if it can. None is a node that was deleted."""
        if node is None:
            return "deleted"
        if not node.usable:
            return "cordoned or not ready"
        return "" if self.accept(node) else f"excluded by the pod's {OWN_DEMANDS}"
