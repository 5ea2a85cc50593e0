"""For a pod of several GPUs, prefers the node on which its GPUs span the fewest NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ledger.accounts import NodeAccount
from ledger.placement.best_gpus import best_gpus
from ledger.placement.best_node import best, score
from ledger.placement.candidates import Candidates
from ledger.placement.node_groups import Found
from ledger.placement.numa import asks_for_several, numa_nodes, span
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement_request import PlacementRequest

MAX_ASKED = 64
"""Nodes whose GPUs are compared for one pod; if there are more, the best of these is taken."""
_NEVER = 2**16
"""Span of a node with a worse score: more than any machine has NUMA nodes."""


def nearest(
    found: Found,
    candidates: Candidates,
    request: PlacementRequest,
    prices: ShadowPrices,
    only: Callable[[NodeAccount], bool] | None = None,
) -> Found:
    """Return the found node, or one with the same score on which the pod's GPUs span fewer NUMA nodes.

    Args:
        found: the best node, and its score.
        candidates: the nodes that could ever hold the pod.
        request: the pod's request.
        prices: current prices of free slices.
        only: whether another node may be taken; None allows all.
    """
    if not asks_for_several(request.share.fraction):
        return found
    spans = _Spans(request, prices, found[0], only)
    fewest = spans.of(found[1])
    while fewest > 1:
        try:
            nearer = best(candidates, request, prices, partial(spans.is_fewer, fewest), least=found[0])
        except _EnoughAskedError:
            nearer = spans.nearer
        if nearer is None:
            break
        found, fewest, spans.nearer = nearer, spans.of(nearer[1]), None
    return found


class _EnoughAskedError(Exception):
    """The limit of nodes for one pod is reached."""


class _Spans:
    """The number of NUMA nodes that a pod's GPUs span, for the nodes compared so far."""

    def __init__(
        self,
        request: PlacementRequest,
        prices: ShadowPrices,
        wanted: int,
        only: Callable[[NodeAccount], bool] | None,
    ) -> None:
        self._request = request
        self._prices = prices
        self._wanted = wanted
        self._only = only
        self._known: dict[str, int] = {}
        self.nearer: Found | None = None
        """The node that was accepted last."""

    def of(self, account: NodeAccount) -> int:
        """Return the span of a node with room; 1 if its agent does not report it."""
        known = self._known.get(account.name)
        if known is None:
            known = self._known[account.name] = self._span(account)
        return known

    def is_fewer(self, fewest: int, account: NodeAccount) -> bool:
        """Whether a node is as good as the found one, and its GPUs span fewer NUMA nodes.

        Raises:
            _EnoughAskedError: the limit of nodes for one pod is reached.
        """
        known = self._known.get(account.name)
        if known is None:
            if len(self._known) >= MAX_ASKED:
                raise _EnoughAskedError
            is_as_good = self._is_as_good(account)
            known = self._known[account.name] = self._span(account) if is_as_good else _NEVER
        if known < fewest:
            self.nearer = self._wanted, account
        return known < fewest

    def _is_as_good(self, account: NodeAccount) -> bool:
        if self._only is not None and not self._only(account):
            return False
        return score(account, self._request, self._prices) == self._wanted

    def _span(self, account: NodeAccount) -> int:
        nodes = numa_nodes(account.fact)
        if not nodes:
            return 1
        return span(best_gpus(account, self._request.share.mode_type, self._request, self._prices), nodes)
