"""What nodes' agents say of their cards: read with bounds, and used before the nodes' labels."""

import asyncio
import json

import msgspec
import pytest

from controller.watch.gpu_node import AgentReport, ReportedUses, gpu_nodes, with_report
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.scheduling import Constraints
from ledger.placement_request import Placement, Unschedulable
from ledger.use import PodUses
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.ledger.cluster import request_of

NODE = NodeFact(
    name="mixed",
    labels={"nvidia.com/gpu.memory": "40960"},
    gpus=((0, 8), (1, 8)),
    slices_per_gpu=8,
    gpu_mib=40960,
)


SAYS = AgentReport("mixed", ((0, 40960), (1, 81920)), has_healthy_cards=True, is_registered=True)


SAYS_ALL = msgspec.structs.replace(SAYS, models=("A100-40GB", "A100-80GB"), lists_gpus=True)


def line(gpus, event="MODIFIED", **status):
    found = {"metadata": {"name": "mixed", "resourceVersion": "7"}, "status": {"gpus": gpus, **status}}
    return json.dumps({"type": event, "object": found}).encode()


def card(index, mib, **more):
    return {"index": index, "uuid": "GPU-x", "model": "A100", "memoryMiB": mib, "healthy": True, **more}


def read(gpus, **status):
    return gpu_nodes().reader.read_event(line(gpus, **status)).item


USE = {
    "namespace": "team",
    "pod": "train",
    "container": "main",
    "gpu": 1,
    "memoryMiB": 5120,
    "usedMiB": 100,
    "peakMiB": 300,
    "p95MiB": 200,
    "since": "2026-01-01T00:00:00Z",
}


def test_a_change_of_use_is_told_only_to_readers_that_follow_it(store):
    store.set_node(SeenNode(NODE, "uid-1"))
    following, other = store.subscribe(), store.subscribe()
    following.follows_uses = True
    before = msgspec.structs.replace(read([]), is_registered=True)
    store.set_agent(before)
    taken = [following.take(), other.take()]
    store.set_agent(msgspec.structs.replace(before, uses=ReportedUses(0)))
    assert (following.take(), other.take()) == (["mixed"], [])
    store.set_agent(msgspec.structs.replace(before, uses=ReportedUses(0)))
    assert (following.take(), other.take()) == ([], []), taken


def test_what_pods_use_on_a_node_is_found_by_its_name(store):
    assert store.use("mixed") == PodUses()
    store.set_agent(read([], usage={"count": 1, "containers": [USE]}))
    assert store.use("mixed").of("team", "train", 1).used_mib == 100


def test_what_pods_use_of_a_card_that_the_agent_offers_by_dra_is_found_by_its_uuid():
    gpus = [card(0, 40960, uuid="GPU-a"), card(1, 40960, uuid="GPU-b")]
    usage = {"count": 1, "containers": [USE]}
    use = read(gpus, usage=usage, offer="dra").use
    assert use.of_card("team", "train", "GPU-b").used_mib == 100
    assert use.of_card("team", "train", "GPU-a") is None
    assert use.of_card("team", "train", "GPU-c") is None


@pytest.fixture
def store():
    return LedgerStore(lambda: 0.0)


def placed(store, **request):
    """Where a pod goes that takes all of the first card's room away from others."""
    answer = store.place(request_of(Fraction(7, 8), **request))
    assert isinstance(answer, Placement)
    return answer


def test_a_card_that_stays_whole_is_none_to_share_and_holds_the_audit_up_for_nobody():
    reported = [card(0, 40960, heldSlices=4, heldPods=1), card(1, 81920, whole=True)]
    assert read(reported).cards == ((0, 40960),)
    assert read(reported).held == ((0, 4),)
    assert not read([card(1, 81920, whole=True)]).has_healthy_cards


def test_cards_are_read_by_index_without_those_in_mig_mode():
    assert read([card(1, 81920), card(0, 40960), card(2, 1, mig=True)]).cards == ((0, 40960), (1, 81920))


def test_models_are_read_as_labels_would_say_them_and_what_is_no_label_says_none():
    report = read(
        [card(1, 2, model="NVIDIA A100-SXM4-80GB"), card(0, 1, model="x y\n"), card(2, 3, mig=True)]
    )
    assert report.models == ("", "NVIDIA-A100-SXM4-80GB")


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        ([card(1, 2, numaNode=0), card(0, 1, numaNode=1)], (1, 0)),
        ([card(0, 1, numaNode=1), card(1, 2, numaNode=1)], ()),
        ([card(0, 1, numaNode=1), card(1, 2)], ()),
        ([card(0, 1, numaNode=1), card(1, 2, numaNode=0), card(2, 3, mig=True)], (1, 0)),
        ([card(0, 1), card(1, 2)], ()),
    ],
)
def test_numa_nodes_are_kept_where_they_tell_cards_apart_and_are_reported_of_each(reported, kept):
    assert with_report(NODE, read(reported), "serving").card_numa == kept


@pytest.mark.parametrize("report_first", [True, False])
def test_names_of_cards_that_are_gone_count_nothing_until_they_are_back(store, report_first):
    kept_at_zero = msgspec.structs.replace(NODE, gpus=((0, 8), (1, 0), (2, 0), (3, 8)))
    steps = [lambda: store.set_agent(SAYS_ALL), lambda: store.set_node(SeenNode(kept_at_zero, "uid-1"))]
    for step in steps if report_first else reversed(steps):
        step()
    # Another plugin offers number 3, and number 1 is there and unhealthy.
    assert [gpu.index for gpu in store.ledger.node("mixed").gpus] == [0, 1, 3]
    assert isinstance(store.place(request_of(Fraction(32, 8))), Unschedulable)
    store.set_agent(msgspec.structs.replace(SAYS_ALL, cards=(*SAYS.cards, (2, 81920)), models=()))
    assert [gpu.index for gpu in store.ledger.node("mixed").gpus] == [0, 1, 2, 3]
    store.watched_cards.remove(("", "mixed"))
    assert [gpu.index for gpu in store.ledger.node("mixed").gpus] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "gpus", [[card(0, "40960")], [card(0, 1), card(0, 2)], [card(0, 1, numaNode="0")], "none"]
)
def test_an_object_that_is_not_sound_counts_nothing(gpus):
    assert read(gpus) is None


def by_agent(store, slices=4):
    """What becomes of a pod that only an agent limits."""
    return store.place(request_of(Fraction(slices, 8), writes_limits=False))


@pytest.mark.parametrize("report_first", [True, False])
def test_a_pod_that_only_an_agent_limits_goes_where_one_serves(store, report_first):
    steps = [lambda: store.set_agent(SAYS), lambda: store.set_node(SeenNode(NODE, "uid-1"))]
    for step in steps if report_first else reversed(steps):
        step()
    other = msgspec.structs.replace(NODE, name="a-plugin-of-others", cpu_milli=1)
    store.set_node(SeenNode(other, "uid-2"))
    asyncio.run(store.watched_cards.listed())
    assert by_agent(store).node == "mixed"
    assert placed(store, constraints=Constraints(node_name=other.name)).node == other.name


def test_where_no_agent_ever_reported_such_a_pod_is_refused_in_words(store):
    store.set_node(SeenNode(NODE, "uid-1"))
    asyncio.run(store.watched_cards.listed())
    answer = by_agent(store)
    assert isinstance(answer, Unschedulable)
    assert answer.why == (
        "on 1 node no node agent runs, and nothing else would limit the pod: ask the admin for the agent"
        " there (docs/getting-started/agent.md)"
    )
    assert by_agent(store, slices=8).node == "mixed"
    assert placed(store).node == "mixed"


def test_a_controller_that_has_not_read_the_reports_of_all_agents_yet_lets_such_a_pod_wait(store):
    store.set_node(SeenNode(NODE, "uid-1"))
    assert by_agent(store).node is None


def test_what_the_kubelet_holds_is_read_where_every_card_tells():
    reported = card(0, 40960, heldSlices=4, heldPods=2)
    assert read([reported, card(1, 40960, heldSlices=0), card(2, 1, mig=True)]).held == ((0, 4), (1, 0))
    assert read([reported, card(1, 40960)]).held is None


POOL_NODE = msgspec.structs.replace(NODE, gpus=(), slices_per_gpu=0, pooled=16)


@pytest.mark.parametrize(
    ("cards", "reported"),
    [
        ([card(0, 1, heldSlices=1), card(1, 1, heldSlices=2, healthy=False)], ((0, 1),)),
        ([card(0, 1, heldSlices=1), card(1, 1, heldSlices=2)], ((0, 1), (1, 2))),
        ([card(0, 1, heldSlices=1), card(1, 1, heldSlices=2), card(2, 1, heldSlices=3)], ()),
        ([card(0, 1)], ()),
    ],
)
def test_only_healthy_cards_are_behind_a_pool_and_none_where_its_slices_do_not_go_with_them(cards, reported):
    assert with_report(POOL_NODE, read(cards), "serving").pool_cards == reported
    assert with_report(POOL_NODE, read(cards), "away").pool_cards == ()
