"""How much one decision may compare: what a pod demands of its node is its author's, and may be long."""

from __future__ import annotations

from ledger.placement_request import Unschedulable

LEAST = 20_000
"""Comparisons that any decision may make: 100 terms with 1,000 values take less than a tenth of it."""
PER_NODE = 4
"""Comparisons that it may make beside those for each node of the cluster."""


class TooMuchWorkError(Exception):
    """A decision would take more comparisons than it may."""


class Work:
    """Comparisons of one pod's demands with what nodes state, counted before they are made."""

    __slots__ = ("most", "spent")

    def __init__(self) -> None:
        self.most = LEAST
        self.spent = 0

    def begin(self, nodes: int) -> None:
        """Begin to count for another pod, in a cluster of so many known nodes.

        A name that only a pod's `nodeName` has is no node: whoever makes pods writes as many as they like.
        """
        self.most = LEAST + PER_NODE * nodes
        self.spent = 0

    def spend(self, comparisons: int) -> None:
        """Count some.

        Raises:
            TooMuchWorkError: they are more than are left.
        """
        self.spent += comparisons
        if self.spent > self.most:
            raise TooMuchWorkError

    def refusal(self) -> Unschedulable:
        """Say to the pod's author what is too much of it, and what to write instead."""
        return Unschedulable(
            f"its demands of a node take more than {self.most} comparisons with the cluster's nodes:"
            " use fewer terms, expressions and tolerations",
            is_too_much=True,
        )
