"""Free slices for a pod, found in published views: as the controller finds them in its books."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from controller.pods.room import RoomFinder
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode, SeenPod
from kube.scheduling import Constraints, Taint, Toleration
from ledger.free_nodes import FreeNodes, Wanted, amounts_of, free_nodes
from ledger.own_demands import OwnDemands
from ledger.view import GpuView, Holding, NodeView
from modes.facts import NodeFact, PodFact
from modes.units import POOL

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
DEMANDS = [
    Constraints(),
    Constraints(node_selector={"zone": "a"}),
    Constraints(tolerations=(Toleration("team", "Exists"),)),
]


@st.composite
def node_facts(draw):
    mib, product = draw(st.sampled_from([None, 40960, 81920])), draw(st.sampled_from(["A100", "H100"]))
    indices = draw(st.sets(st.integers(0, 3), max_size=3))
    labels = {PRODUCT: product, "zone": draw(st.sampled_from("ab"))} | ({MEMORY: str(mib)} if mib else {})
    return NodeFact(
        name=draw(st.sampled_from("abcdef")),
        labels=labels,
        gpus=tuple((index, draw(st.sampled_from([0, 8]))) for index in sorted(indices)),
        slices_per_gpu=8,
        pooled=draw(st.sampled_from([0, 16])),
        pooled_gpus=2,
        gpu_mib=mib,
        taints=draw(st.sampled_from([(), (), (Taint("team", "NoSchedule"),)])),
        usable=draw(st.sampled_from([True, True, False])),
        cordoned=frozenset(draw(st.sets(st.integers(0, 3), max_size=2))),
    )


@st.composite
def asks(draw):
    gpus = tuple(
        (index, draw(st.integers(1, 8))) for index in sorted(draw(st.sets(st.integers(0, 3), max_size=2)))
    )
    return PodFact(
        namespace="team",
        name="asks",
        takes=gpus or ((POOL, 4),),
        memory_values=draw(st.sampled_from([None, ("81920",), ("40960", "81920")])),
        model=draw(st.sampled_from([None, "H100"])),
        products=draw(st.sampled_from([(), ("A100", "H100"), ("A100", "L40S")])),
    )


@given(
    st.lists(node_facts(), max_size=6, unique_by=lambda fact: fact.name),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(1, 9)), max_size=8),
    asks(),
    st.none() | st.sets(st.sampled_from("abcdef")),
    st.sampled_from(DEMANDS),
)
def test_views_tell_the_same_as_the_books(facts, holders, request, with_agent, demands):
    state = LedgerStore(lambda: 0.0)
    for fact in sorted(facts, key=lambda fact: fact.name):
        state.set_node(SeenNode(fact, fact.name))
    there = {(fact.name, index) for fact in facts for index, _ in fact.gpus}
    for number, (node, index, slices) in enumerate(each for each in holders if each[:2] in there):
        held = PodFact(namespace="team", name=f"h{number}", node=node, takes=((index, slices),))
        state.set_pod(SeenPod(held, None))
    for name in with_agent or ():
        state.set_agent(AgentReport(name, (), is_registered=True))
    nodes, own = state.ledger.view().nodes, OwnDemands(demands)
    by_agent = with_agent is not None
    wanted = Wanted(amounts_of(request), request.memory_values, request.models, by_agent)
    found = free_nodes(nodes, wanted, lambda name: own.accept(state.nodes[name].fact), with_agent or ())
    assert found == asyncio.run(RoomFinder(state).nodes(request, demands, by_agent=by_agent))


def test_nodes_that_were_not_compared_are_counted_apart():
    views = [
        NodeView(name, usable=True, slices_per_gpu=8, gpu_mib=1, product=None, gpus=(GpuView(0, 8, ()),))
        for name in ("a", "b", "c", "d")
    ]
    answers = {"a": True, "b": False}
    found = free_nodes(views, Wanted(((0, 8),)), answers.get)
    assert found == FreeNodes((("a", 8),), 0, ("a", 0, 8), has_room=True, shut_out=1, not_compared=2)


def test_another_gpu_with_room_is_found():
    shares = (Holding("team", "a", "holder", 6),)
    node = NodeView("gpu-0", usable=True, slices_per_gpu=8, gpu_mib=1, product=None, gpus=())
    gpus = (GpuView(0, 8, shares), GpuView(1, 8, (), cordoned=True), GpuView(2, 8, ()))
    views = [NodeView(node.name, node.usable, 8, 1, None, gpus)]
    assert free_nodes(views, Wanted(((0, 4),))) == FreeNodes((("gpu-0", 2),), 0, ("gpu-0", 2, 8))


def test_room_is_reported_by_each_gpu_and_what_is_asked_of_it():
    gpus = (GpuView(0, 8, ()), GpuView(1, 8, (Holding("team", "a", "holder", 4),)))
    views = [NodeView("gpu-0", usable=True, slices_per_gpu=8, gpu_mib=1, product=None, gpus=gpus)]
    for amounts, has_room in [(((0, 7), (1, 4)), True), (((0, 4), (1, 7)), False), (((0, 7), (2, 1)), False)]:
        assert free_nodes(views, Wanted(amounts)).has_room is has_room


def test_nodes_of_models_that_the_pod_is_not_bound_to_are_not_called_free():
    views = [
        NodeView(name, usable=True, slices_per_gpu=8, gpu_mib=1, product=name, gpus=(GpuView(0, 8, ()),))
        for name in ("A100", "H100", "L40S")
    ]
    found = free_nodes(views, Wanted(((0, 1),), None, ("A100", "H100")))
    assert (found.most, found.other_model) == ((("A100", 8), ("H100", 8)), "L40S")
    assert not free_nodes(views, Wanted(((0, 9),), None, ("A100",))).other_model


def test_nodes_that_the_pod_does_not_accept_are_neither_free_nor_elsewhere_but_counted():
    views = [
        NodeView(name, usable=True, slices_per_gpu=8, gpu_mib=1, product=None, gpus=(GpuView(0, 8, ()),))
        for name in ("a", "b", "c")
    ]
    views.append(
        NodeView("d", usable=True, slices_per_gpu=8, gpu_mib=1, product=None, gpus=(GpuView(5, 8, ()),))
    )
    found = free_nodes(views, Wanted(((0, 4),)), {"b"}.__contains__)
    assert (found.most, found.elsewhere, found.shut_out) == ((("b", 8),), ("b", 0, 8), 2)
    found = free_nodes(views, Wanted(((0, 4),)), lambda _: False)
    assert (found.most, found.has_room, found.elsewhere, found.shut_out) == ((), False, None, 3)
    assert free_nodes(views, Wanted(((0, 4),))).shut_out == 0
