"""Free slices for a pod, found in published views."""

import pytest

from ledger.free_nodes import FreeNodes, Wanted, free_nodes
from ledger.view import GpuView, Holding, NodeView


def test_nodes_that_the_pod_does_not_accept_are_neither_free_nor_elsewhere_but_counted():
    indices = {"a": 0, "b": 0, "c": 0, "d": 5}
    known = {"usable": True, "slices_per_gpu": 8, "gpu_mib": 1, "product": None}
    views = [NodeView(name, gpus=(GpuView(at, 8, ()),), **known) for name, at in indices.items()]
    found = free_nodes(views, Wanted(((0, 4),)), {"b"}.__contains__)
    assert (found.most, found.elsewhere, found.shut_out) == ((("b", 8),), ("b", 0, 8), 2)
    found = free_nodes(views, Wanted(((0, 4),)), lambda _: False)
    assert (found.most, found.has_room, found.elsewhere, found.shut_out) == ((), False, None, 3)
    assert free_nodes(views, Wanted(((0, 4),))).shut_out == 0


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(((0, 4),)), FreeNodes((("n", 2),), 0, ("n", 2, 8))),
        (Wanted(((0, 2), (2, 8))), FreeNodes((("n", 2),), has_room=True)),
        (Wanted(((0, 3), (2, 8))), FreeNodes((("n", 2),))),
        (Wanted(((0, 1),), models=("H100",)), FreeNodes(other_model="A100")),
        (Wanted(((0, 1),), by_agent=True), FreeNodes(by_agent=True)),
    ],
    ids=["another GPU", "room on each", "room on one", "of another model", "without an agent"],
)
def test_free_slices_are_those_of_the_gpus_that_a_pod_asks_for(wanted, found):
    shares = (Holding("team", "a", "holder", 6),)
    gpus = (GpuView(0, 8, shares), GpuView(1, 8, (), cordoned=True), GpuView(2, 8, ()))
    node = NodeView("n", usable=True, slices_per_gpu=8, gpu_mib=1, product="A100", gpus=gpus)
    assert free_nodes([node], wanted) == found
