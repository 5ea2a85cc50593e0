"""MIG instances in the ledger: placed, counted for any pod, and worth what they are on their card."""

import msgspec
import pytest

from ledger.ledger import Ledger
from ledger.placement_request import OverQuota, Placement, Quota, Unschedulable
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.units import POOL, profile_of_resource
from tests.ledger.cluster import ledger_of, request_of

A100_40, A100_80, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"


def number(profile):
    return profile_of_resource(f"nvidia.com/mig-{profile}").number


def mig_node(name, product=A100_80, /, **profiles):
    instances = tuple(
        sorted((number(key[1:].replace("_", ".", 1)), count) for key, count in profiles.items())
    )
    labels = {"nvidia.com/gpu.product": product, "kubernetes.io/hostname": name}
    return NodeFact(name=name, labels=labels, instances=instances)


def single_node(name, profile, count):
    labels = {"nvidia.com/gpu.product": f"{A100_80}-MIG-{profile}"}
    return NodeFact(name=name, labels=labels, pooled=count, pooled_gpus=count)


def ask(share=1, /, **more):
    fraction = Fraction(share, 8) if share < 100 else Fraction.of_memory(share, 8)
    return request_of(fraction, mode="mig", writes_limits=False, **more)


def native(name, node, profile, count=1, **more):
    takes = ((profile_of_resource(f"nvidia.com/mig-{profile}"), count),)
    return PodFact(**{"namespace": "team", "name": name, "node": node, "takes": takes, **more})


def placed(ledger, *asks):
    answers = [ledger.place(each, 0.0) for each in asks]
    assert all(isinstance(answer, Placement) for answer in answers), answers
    return [(answer.node, answer.instance.profile.name) for answer in answers]


def test_pods_get_instances_until_none_is_left_and_then_wait_for_one():
    ledger = ledger_of(mig_node("a", p1g_10gb=2))
    asks = [ask(reservation=f"r{at}") for at in range(3)]
    assert placed(ledger, *asks) == [("a", "1g.10gb"), ("a", "1g.10gb"), (None, "1g.10gb")]
    assert ledger.place(ask(), 0.0).indices == (number("1g.10gb"),)
    (view,) = ledger.view().nodes
    assert [(gpu.name, gpu.capacity, gpu.used) for gpu in view.gpus] == [("1g.10gb", 2, 2)]
    assert ledger.pending_slices() == 1


def test_a_pod_that_nobody_labelled_holds_its_instance_all_the_same():
    ledger = ledger_of(mig_node("a", p1g_10gb=2), holders=(native("own", "a", "1g.10gb", 2),))
    assert placed(ledger, ask()) == [(None, "1g.10gb")]


def test_instances_of_strategy_single_are_counted_with_those_who_ask_for_whole_gpus():
    ledger = ledger_of(single_node("s", "3g.40gb", 2))
    ledger.set_pod(PodFact(namespace="team", name="own", node="s", takes=((POOL, 1),)))
    asks = [ask(4, reservation=f"r{at}") for at in range(2)]
    assert placed(ledger, *asks) == [("s", "3g.40gb"), (None, "3g.40gb")]
    assert ledger.place(ask(4), 0.0).indices == ()
    assert ledger.used_by_namespace() == {"team": 4, "default": 8}


def test_a_place_with_room_comes_before_a_smaller_instance_to_wait_for():
    nodes = mig_node("a", A100_80, p1g_10gb=1), mig_node("b", H100, p2g_20gb=1)
    ledger = ledger_of(*nodes, holders=(native("x", "a", "1g.10gb"),))
    assert placed(ledger, ask()) == [("b", "2g.20gb")]


def test_pods_that_wait_share_out_to_equal_instances_by_what_waits_for_them():
    nodes = mig_node("a", A100_40, p1g_5gb=1), mig_node("b", A100_80, p1g_10gb=3)
    holders = native("x", "a", "1g.5gb"), native("y", "b", "1g.10gb", 3)
    ledger = ledger_of(*nodes, holders=holders)
    waiting = placed(ledger, *(ask(reservation=f"r{at}") for at in range(4)))
    assert sorted(profile for _, profile in waiting) == ["1g.10gb", "1g.10gb", "1g.10gb", "1g.5gb"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ((), "no node offers MIG instances"),
        ((mig_node("a", "Tesla-T4", p1g_10gb=1),), "no node offers MIG instances of a known card"),
        ((mig_node("a", p1g_10gb=7),), "no MIG instance holds 2/8 of a GPU"),
    ],
)
def test_what_no_instance_could_ever_hold_is_denied_at_once(made, why):
    answer = ledger_of(*made).place(ask(2), 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.why.startswith(why)


@pytest.mark.parametrize(
    ("product", "profile", "slices", "mib"),
    [(A100_80, "1g.10gb", 1, 9728), (A100_40, "1g.10gb", 2, 9856), (H100, "3g.40gb", 4, 40192)],
)
def test_quotas_count_what_an_instance_is_worth_on_its_card(product, profile, slices, mib):
    key = "p" + profile.replace(".", "_", 1)
    ledger = ledger_of(mig_node("a", product, **{key: 7}), holders=(native("x", "a", profile, 2),))
    quota = Quota("namespace", "team", slices=100, memory_mib=1)
    assert ledger.used_of(quota).slices == 2 * slices
    assert ledger.mib_used_of([quota]) == {"team": 2 * mib}


def test_a_card_that_becomes_known_changes_what_its_pods_are_worth():
    ledger = Ledger()
    ledger.set_pod(native("x", "a", "1g.10gb"))
    assert ledger.used_by_namespace() == {"team": 2}
    ledger.set_node(mig_node("a", A100_80, p1g_10gb=1))
    assert ledger.used_by_namespace() == {"team": 1}
    ledger.set_node(mig_node("a", A100_40, p1g_10gb=1))
    assert ledger.used_by_namespace() == {"team": 2}
    ledger.set_node(mig_node("a", A100_40))
    ledger.set_node(mig_node("a", A100_80))
    assert ledger.used_by_namespace() == {"team": 1}
    ledger.remove_node("a")
    ledger.remove_pod(("team", "x"))
    assert ledger.used_by_namespace() == {}


@pytest.mark.parametrize(
    ("product", "labels"),
    [(A100_80, {"clearml-injector/gpu-partitioning": "mig"}), (f"{A100_80}-MIG-1g.10gb", {})],
    ids=["divided on demand", "strategy single after mixed"],
)
def test_nodes_that_offer_the_same_may_be_divided_differently(product, labels):
    a, b = mig_node("a", product, p1g_10gb=1), mig_node("b", product, p2g_20gb=1)
    nodes = [
        msgspec.structs.replace(each, labels={**each.labels, **labels}, pooled="MIG" in product)
        for each in (a, b)
    ]
    ledger = ledger_of(*nodes)
    assert placed(ledger, ask(1)) == [("a", "1g.10gb")]
    ledger.set_node(msgspec.structs.replace(nodes[0], instances=nodes[1].instances))
    ledger.remove_node("b")
    assert isinstance(ledger.place(ask(1), 0.0), Placement)


def test_an_instance_counts_as_the_mib_that_it_has_on_the_node_or_the_most_of_its_models():
    nodes = mig_node("a", A100_80, p1g_10gb=1), mig_node("h", H100, p1g_10gb=1)
    ledger = ledger_of(*nodes, holders=(native("x", "a", "1g.10gb"),))
    quotas = (Quota("namespace", "own", memory_mib=2 * 9856 - 1),)
    first, second = (
        ledger.place(ask(namespace="own", quotas=quotas, reservation=f"r{at}"), 0.0) for at in range(2)
    )
    assert isinstance(first, Placement)
    assert first.node == "h"
    assert ledger.mib_used_of(quotas) == {"own": 9856}
    assert isinstance(second, OverQuota)
