"""What a DRA driver and a device plugin both offer of a node: left out until one of them withdraws."""

import asyncio

import msgspec
import pytest

from controller.watch.dra_offers import DraOffers, with_offers
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resource_slice import DraSlice, resource_slices
from controller.watch.resources import SeenNode
from kube.names import DRA_DRIVER
from ledger.placement_request import Placement, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.cluster.objects import listed
from tests.controller.watch.test_ledger_store import pages
from tests.controller.watch.test_resource_slice import gpu, read, resource_slice
from tests.ledger.cluster import request_of
from webhook.placing.fallback import Fallback

NODE = NodeFact(
    name="a",
    labels={"nvidia.com/gpu.memory": "40960", "kubernetes.io/hostname": "a"},
    gpus=((0, 8), (1, 8)),
    slices_per_gpu=8,
    gpu_mib=40960,
)
AGENT = AgentReport(
    "a", ((0, 40960), (1, 40960)), uuids=("GPU-0", "GPU-1"), has_healthy_cards=True, is_registered=True
)


def test_what_is_kept_of_all_is_bounded():
    offers = DraOffers(max_slices=2, max_cards=3)
    offers.put(DraSlice("one", "a", ("GPU-0", "GPU-1")))
    offers.put(DraSlice("two", "b", ("GPU-2", "GPU-3")))
    assert (offers.on("a").are_all, offers.on("b").are_all) == (True, False)
    assert offers.put(DraSlice("three", "c", ("GPU-4",))) == set()
    assert (offers.on("c"), len(offers.names)) == (None, 2)
    assert offers.remove("one") == {"a"}
    offers.put(DraSlice("three", "c", ("GPU-4",)))
    offers.put(DraSlice("two", "b", ("GPU-2", "GPU-3")))
    assert (offers.on("b").are_all, offers.on("c").uuids) == (True, {"GPU-4"})


def test_a_slice_that_moves_to_another_node_leaves_the_first():
    offers = DraOffers()
    offers.put(read(gpu("GPU-0")))
    assert offers.put(read(gpu("GPU-0"), node="b")) == {"a", "b"}
    assert (offers.on("a"), offers.on("b").uuids) == (None, {"GPU-0"})


def test_a_card_of_two_slices_is_offered_until_both_are_gone():
    offers = DraOffers()
    offers.put(DraSlice("one", "a", ("GPU-0",)))
    offers.put(DraSlice("two", "a", ("GPU-0", "GPU-1")))
    offers.remove("two")
    assert offers.on("a").uuids == {"GPU-0"}
    offers.put(DraSlice("three", "a", names_cards=False))
    assert not offers.on("a").are_all
    assert (offers.remove("three"), offers.on("a").are_all) == ({"a"}, True)
    assert (offers.remove("one"), offers.on("a")) == ({"a"}, None)


class Uuid(str):
    """Counts how often one of them is looked up."""

    __slots__ = ()
    lookups = 0

    def __hash__(self):
        Uuid.lookups += 1
        return super().__hash__()


def test_a_slice_takes_no_more_work_where_its_node_has_many():
    """A kubelet may write as many of its own node as the API server stores."""
    offers = DraOffers()
    slices = [
        DraSlice(f"slice-{number}", "a", tuple([Uuid(f"GPU-{number}-{card}") for card in range(8)]))
        for number in range(200)
    ]
    for each in slices[:-1]:
        offers.put(each)
    Uuid.lookups = 0
    offers.put(slices[-1])
    with_offers(NODE, AGENT, offers.on("a"))
    assert Uuid.lookups <= 8 * 4


@pytest.fixture
def store():
    return LedgerStore(lambda: 0.0)


def fact(store):
    return store.nodes["a"].fact


def see(store, agent=AGENT, node=NODE):
    if agent is not None:
        store.set_agent(agent)
    store.set_node(SeenNode(node, "uid-a"))


def half(store, **request):
    return store.place(request_of(Fraction(4, 8), **request))


@pytest.mark.parametrize("slice_first", [True, False])
def test_with_the_agents_uuids_single_cards_are_left_out(store, slice_first):
    steps = [lambda: store.set_slice(read(gpu("GPU-1"))), lambda: see(store)]
    for step in steps if slice_first else reversed(steps):
        step()
    assert (fact(store).offered_twice, fact(store).is_offered_twice) == ({1}, False)
    placed = half(store)
    assert isinstance(placed, Placement)
    assert placed.indices == (0,)


def test_mig_devices_of_a_card_leave_the_card_out(store):
    see(store)
    store.set_slice(read(gpu("MIG-7", "mig", parentUUID="GPU-0")))
    assert fact(store).offered_twice == {0}


def test_where_the_driver_offers_every_card_the_node_is_left_out(store):
    see(store)
    store.set_slice(read(gpu("GPU-0"), name="one"))
    store.set_slice(read(gpu("GPU-1"), name="two"))
    assert fact(store).is_offered_twice
    assert store.offered_twice == {"a"}
    assert isinstance(half(store), Unschedulable)


def test_cards_of_which_the_agent_offers_none_disturb_nothing(store):
    see(store)
    store.set_slice(read(gpu("GPU-whole")))
    assert fact(store).offered_twice == frozenset()
    assert store.offered_twice == set()


@pytest.mark.parametrize(
    ("agent", "node", "device"),
    [
        (None, NODE, gpu("GPU-1")),
        (msgspec.structs.replace(AGENT, uuids=()), NODE, gpu("GPU-1")),
        (msgspec.structs.replace(AGENT, uuids=("GPU-0", "")), NODE, gpu("GPU-0")),
        (AGENT, NODE, gpu("6f1a", "vfio")),
        (AGENT, msgspec.structs.replace(NODE, gpus=(), pooled=16, pooled_gpus=2), gpu("GPU-1")),
        (AGENT, msgspec.structs.replace(NODE, gpus=(), instances=((1000, 7),)), gpu("GPU-1")),
        (msgspec.structs.replace(AGENT, cards=(), uuids=()), NODE, gpu("GPU-1")),
    ],
    ids=["no agent", "old agent", "no uuid", "passthrough", "pool", "instances", "another plugin's names"],
)
def test_where_nobody_tells_the_cards_the_whole_node_is_left_out(store, agent, node, device):
    see(store, agent, node)
    store.set_slice(read(device))
    assert fact(store).is_offered_twice
    assert fact(store).cordoned == {index for index, _ in node.gpus}


def test_a_node_without_a_device_plugin_is_offered_once(store):
    see(store, None, msgspec.structs.replace(NODE, gpus=(), slices_per_gpu=0))
    store.set_slice(read(gpu("GPU-0")))
    assert not fact(store).is_offered_twice


def test_the_annotation_of_the_admin_counts_too(store):
    see(store, node=msgspec.structs.replace(NODE, cordoned=frozenset({0})))
    store.set_slice(read(gpu("GPU-1")))
    assert fact(store).cordoned == {0, 1}
    store.remove_slice("s")
    assert fact(store).cordoned == {0}


@pytest.mark.parametrize("how", ["deleted", "without devices", "not listed any more"])
def test_a_driver_that_withdraws_gives_the_node_back(store, how):
    see(store, None)
    store.set_slice(read(gpu("GPU-0")))
    assert isinstance(half(store), Unschedulable)
    if how == "deleted":
        store.watched_slices.remove(("", "s"))
    elif how == "without devices":
        store.set_slice(read())
    else:
        asyncio.run(store.watched_slices.replace(pages([])))
    assert isinstance(half(store), Placement)
    assert store.offered_twice == set()


def test_a_node_that_is_gone_and_comes_back_is_still_offered_twice(store):
    see(store, None)
    store.set_slice(read(gpu("GPU-0")))
    store.remove_node("a")
    assert store.offered_twice == set()
    see(store, None)
    assert fact(store).is_offered_twice


def test_the_webhook_leaves_the_node_out_too_while_the_controller_is_away(store):
    see(store, None)
    store.set_slice(read(gpu("GPU-0")))
    other = msgspec.structs.replace(NODE, name="b", labels=NODE.labels | {"kubernetes.io/hostname": "b"})
    store.set_node(SeenNode(other, "uid-b"))
    fallback = Fallback(lambda: 0.0)
    for name in "ab":
        state = msgspec.json.decode(
            msgspec.json.encode(store.node_state(name)), type=type(store.node_state(name))
        )
        fallback.set_node(state)
    placed = fallback.place(request_of(Fraction(4, 8)))
    assert (placed.node, placed.other_hosts, placed.degraded) == ("b", ("a",), True)


def test_a_whole_list_is_read_page_by_page(store):
    see(store, None)
    reader = resource_slices(DRA_DRIVER).reader
    found, _ = reader.read_list(
        msgspec.json.encode(listed(resource_slice("s", gpu("GPU-0")), resource_slice("t")))
    )
    asyncio.run(store.watched_slices.replace(pages(list(found))))
    assert list(store.watched_slices.keys()) == [("", "s")]
