"""Whether a waiting pod's own nodeSelector, affinity and tolerations accept a node, for messages to users."""

from __future__ import annotations

from kube.matching import TolerationIndex, labels_match
from kube.scheduling import Constraints
from modes.facts import NodeFact

MAX_COMPARISONS = 250_000
"""Comparisons for one answer: 50 with each of 5,000 nodes. Users can write demands of any length."""


class OwnDemands:
    """Compares nodes with the demands of one pod, until MAX_COMPARISONS are used up."""

    def __init__(self, constraints: Constraints) -> None:
        terms = constraints.required_terms or ()
        asked = [
            each for term in terms for each in (*(term.match_expressions or ()), *(term.match_fields or ()))
        ]
        self._constraints = constraints
        self._tolerations = TolerationIndex(constraints.tolerations)
        expressions = sum([1 + len(each.values or ()) for each in asked])
        self._each = 1 + len(constraints.node_selector) + len(terms) + expressions
        self._left = MAX_COMPARISONS - len(constraints.tolerations)

    def accept(self, node: NodeFact) -> bool | None:
        """Return whether the pod accepts a node; None if too few comparisons are left."""
        cost = self._each + len(node.taints)
        if cost > self._left:
            return None
        self._left -= cost
        found = labels_match(self._constraints, node.name, node.labels)
        return found and self._tolerations.tolerates(node.taints)
