"""Limits the comparisons of one decision, because users can write long demands on nodes."""

from __future__ import annotations

from ledger.placement_request import Unschedulable

LEAST = 20_000
"""Comparisons that any decision may make: 100 terms with 1,000 values use less than a tenth of them."""
PER_NODE = 4
"""Further comparisons for each node of the cluster."""


class TooMuchWorkError(Exception):
    """A decision would take more comparisons than it may use."""


class Work:
    """Counts comparisons of one pod's demands with nodes, before they are made."""

    __slots__ = ("most", "spent")

    def __init__(self) -> None:
        self.most = LEAST
        self.spent = 0

    def begin(self, nodes: int) -> None:
        """Start counting for another pod, in a cluster of this many known nodes.

        A name that appears only in a pod's `nodeName` is not a known node: users can write any number of
        them.
        """
        self.most = LEAST + PER_NODE * nodes
        self.spent = 0

    def spend(self, comparisons: int) -> None:
        """Count comparisons.

        Raises:
            TooMuchWorkError: they are more than are left.
        """
        self.spent += comparisons
        if self.spent > self.most:
            raise TooMuchWorkError

    def refusal(self) -> Unschedulable:
        """Return the refusal, which tells the pod's author what to reduce."""
        return Unschedulable(
            f"its demands on nodes take more than {self.most} comparisons with the cluster's nodes:"
            " use fewer terms, expressions and tolerations",
            is_too_much=True,
        )
