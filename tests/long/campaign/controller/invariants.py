"""What must hold of a ledger after each decision, added up apart from it."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

from controller.watch.ledger_store import LedgerStore
from ledger.placement_request import AllocatedShare, Placement, PlacementRequest
from modes.units import unit_name, unit_of
from tests.long.campaign.controller import asks

MOST_BYTES = 2**20
"""That a ledger may hold of what it learnt from a cluster that is gone."""


class FoundError(AssertionError):
    """Something that does not hold."""


class Granted(msgspec.Struct):
    """A placement that was promised under a name."""

    request: PlacementRequest
    placement: Placement
    at: float


def check_capacity(store: LedgerStore, allocated: AllocatedShare, live: dict[str, Granted]) -> None:
    """Check that no GPU of the chosen node has more holders and live promises than slices."""
    answer = allocated.placement
    node = store.nodes.get(answer.node or "")
    if node is None:
        raise FoundError(f"placed on {answer.node}, which is not there")
    capacity, taken = Counter(node.fact.offered()), Counter(dict(allocated.takes))
    for pod in store.pods.values():
        if pod.fact.node == answer.node and not pod.fact.is_over:
            taken.update(dict(pod.fact.takes))
    for each in live.values():
        if each.placement.node == answer.node:
            taken.update(dict(each.request.share.allocated(each.placement).takes))
    for unit in map(unit_of, answer.indices):
        if taken[unit] > capacity[unit]:
            raise FoundError(f"{answer.node}, {unit_name(unit)}: {taken[unit]} of {capacity[unit]}")


def check_quota(store: LedgerStore, namespace: str, asked: int, live: dict[str, Granted]) -> None:
    """Check that holders and live promises of a namespace and `asked` slices more stay within its quota."""
    # As the ledger has them: what an instance is worth hangs on the card of its node.
    pods = [store.ledger._pods[key] for key, pod in store.pods.items() if not pod.fact.is_over]
    held = sum(each.slices for each in pods if each.namespace == namespace)
    young = [each for each in live.values() if each.request.accounting.namespace == namespace]
    promised = sum(each.request.share.allocated(each.placement).share.slices for each in young)
    if held + promised + asked > asks.QUOTA:
        raise FoundError(f"{namespace}: {held} held, {promised} promised, {asked} more of {asks.QUOTA}")


def footprint(root: object) -> int:
    """Bytes of an object and of all that hangs on it, but for code."""
    seen, waiting, size = {id(root)}, [root], 0
    while waiting:
        one = waiting.pop()
        size += sys.getsizeof(one)
        for each in gc.get_referents(one):
            if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType | MethodType):
                seen.add(id(each))
                waiting.append(each)
    return size


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Name the books that differ, and how they begin."""
    found = [name for name in one if one[name] != other[name]]
    return "; ".join(f"{name}: {str(one[name])[:400]} and {str(other[name])[:400]}" for name in found)
