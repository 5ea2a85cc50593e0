"""Of nodes that are equally good for a pod of several GPUs one on which these span the fewest NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ledger.accounts import NodeAccount
from ledger.placement.best_gpus import best_gpus
from ledger.placement.best_node import best, score
from ledger.placement.candidates import Candidates
from ledger.placement.node_groups import Found
from ledger.placement.numa import asks_for_several, numa_nodes, span
from ledger.placement.request_history import ShadowPrices
from ledger.placement_request import PlacementRequest

MAX_ASKED = 64
"""Nodes whose GPUs are looked at for one pod; among more the best of these is taken."""
_NEVER = 2**16
"""Span of a node that is not as good: more than any machine has NUMA nodes."""


def nearest(
    found: Found,
    candidates: Candidates,
    request: PlacementRequest,
    prices: ShadowPrices,
    only: Callable[[NodeAccount], bool] | None = None,
) -> Found:
    """Return the node found, or one of the same score whose GPUs for the pod span fewer NUMA nodes.

    Args:
        found: the best node, and its score.
        candidates: the nodes that could hold the pod.
        request: of the pod.
        prices: of free slices now.
        only: asked of each other node before it is looked at; None takes all.
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
    """As many nodes were looked at as may be for one pod."""


class _Spans:
    """How many NUMA nodes a pod's GPUs would be on, by the nodes asked so far."""

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
        """Return the span of a node with room; 1 where its agent does not tell."""
        known = self._known.get(account.name)
        if known is None:
            known = self._known[account.name] = self._span(account)
        return known

    def is_fewer(self, fewest: int, account: NodeAccount) -> bool:
        """Whether a node is as good as the one found, and its GPUs span fewer NUMA nodes.

        Raises:
            _EnoughAskedError: too many other nodes were looked at before.
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
