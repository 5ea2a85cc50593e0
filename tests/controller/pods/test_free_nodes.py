"""Where slices are said to be free for a pod that waits."""

import asyncio

import msgspec

from controller.pods.free_nodes import FreeNodesFinder
from tests.controller.watch.test_ledger_store import ready_state, seen_pod


def test_a_node_that_takes_no_pods_or_whose_gpu_is_cordoned_is_not_called_free():
    state, _ = ready_state("a", "b", "c")
    for name, change in (("a", {"usable": False}), ("b", {"cordoned": frozenset({0})})):
        known = state.nodes[name]
        fact = msgspec.structs.replace(known.fact, **change)
        state.set_node(msgspec.structs.replace(known, fact=fact))
    found = asyncio.run(FreeNodesFinder(state).find(seen_pod("x").fact))
    assert (found.most, found.others) == ((("c", 8),), 0)
