"""GPUs that a DRA driver offers beside the device plugin: no pod is placed there, and none is led there."""

import msgspec
import pytest

from ledger.ledger import Ledger
from ledger.placement_request import MAX_HOSTS, Assumption, Placement, Unschedulable
from modes.fraction import Fraction
from modes.units import profile_of_resource
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, request_of
from tests.ledger.placement.test_cards import BY_AGENT, LARGE, OF_80, SMALL, node_of

ASK_THE_ADMIN = (
    "a DRA driver offers the same GPUs as the device plugin: ask the admin to turn one of the two off"
)
PROFILE = profile_of_resource("nvidia.com/mig-1g.10gb").number


def twice_node(name, count=2, twice=None, **changes):
    indices = frozenset(range(count) if twice is None else twice)
    is_all = len(indices) == count
    known = {"offered_twice": indices, "is_offered_twice": is_all, "cordoned": indices}
    return gpu_node(name, count, **(known | changes))


def pool(name, **changes):
    return gpu_node(name, 0, gpus=(), slices_per_gpu=0, pooled=16, pooled_gpus=2, **changes)


def placed(ledger, request=None):
    found = ledger.place(request or eighths(4), 0.0)
    assert isinstance(found, Placement), found
    return found


def refusal(ledger, request=None):
    found = ledger.place(request or eighths(4), 0.0)
    assert isinstance(found, Unschedulable), found
    return found.why


def test_a_pod_goes_to_another_node_and_shuts_the_host_out():
    found = placed(ledger_of(twice_node("a"), gpu_node("b")))
    assert (found.node, found.other_hosts) == ("b", ("a",))


def test_a_pod_that_waits_shuts_the_host_out_too():
    full = holder("full", "b", (0, 8), (1, 8))
    found = placed(ledger_of(twice_node("a"), gpu_node("b"), holders=(full,)))
    assert (found.node, found.other_hosts) == (None, ("a",))


def test_where_no_other_node_has_gpus_the_pod_is_refused_with_what_to_do():
    why = refusal(ledger_of(twice_node("a"), twice_node("b")))
    assert why == f"on 2 nodes {ASK_THE_ADMIN} (docs/operating/other-systems.md)"
    assert len(why) < 200


def test_pods_that_are_there_stay_counted():
    ledger = ledger_of(twice_node("a"), holders=(holder("old", "a", (0, 4)),))
    view = ledger.node("a")
    assert [(gpu.used, gpu.offered_twice, gpu.cordoned) for gpu in view.gpus] == [
        (4, True, True),
        (0, True, True),
    ]


def test_a_node_that_is_offered_once_again_takes_pods():
    ledger = ledger_of(twice_node("a"), twice_node("b"))
    ledger.set_node(gpu_node("a"))
    assert placed(ledger).other_hosts == ("b",)
    ledger.set_node(gpu_node("b"))
    assert placed(ledger).other_hosts == ()


def test_a_node_that_is_gone_is_shut_out_no_longer():
    ledger = ledger_of(twice_node("a"), gpu_node("b"))
    ledger.remove_node("a")
    assert placed(ledger).other_hosts == ()


def test_single_gpus_are_left_out_and_the_others_used():
    ledger = ledger_of(twice_node("a", twice=[0]))
    found = placed(ledger)
    assert (found.node, found.indices, found.other_hosts) == ("a", (1,), ())


def test_a_host_is_shut_out_only_for_those_of_its_gpus_that_are_offered_twice():
    full = holder("full", "a", (1, 8))
    ledger = ledger_of(twice_node("a", twice=[0]), gpu_node("b", 1), holders=(full,))
    found = placed(ledger)
    assert (found.node, found.indices, found.other_hosts) == ("b", (0,), ("a",))


def test_a_pod_of_two_gpus_needs_two_that_are_offered_once():
    assert ASK_THE_ADMIN in refusal(ledger_of(twice_node("a", twice=[0])), of_two())
    found = placed(ledger_of(twice_node("a", 3, twice=[1])), of_two())
    assert found.indices == (0, 2)


def of_two():
    return request_of(Fraction(8, 8, parts=2))


def test_a_host_whose_labels_lead_nowhere_is_not_named():
    small = twice_node("small", mib=40960)
    assert placed(ledger_of(small, gpu_node("b"))).other_hosts == ()


@pytest.mark.parametrize("count", [MAX_HOSTS, MAX_HOSTS + 1])
def test_with_more_hosts_than_a_pod_can_shut_out_it_names_those_that_suit(count):
    nodes = [twice_node(f"twice-{number:02}") for number in range(count)]
    found = placed(ledger_of(*nodes, gpu_node("b"), gpu_node("c")))
    if count <= MAX_HOSTS:
        assert (found.hosts, len(found.other_hosts)) == ((), count)
    else:
        assert (found.hosts, found.other_hosts) == (("b", "c"), ())


def test_a_pool_is_left_out_as_a_whole():
    twice = pool("a", is_offered_twice=True)
    assert ASK_THE_ADMIN in refusal(ledger_of(twice), eighths(4, mode="pooled"))
    found = placed(ledger_of(twice, pool("b")), eighths(4, mode="pooled"))
    assert (found.node, found.other_hosts) == ("b", ("a",))


def test_instances_are_left_out_as_a_whole():
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    nodes = {
        name: gpu_node(
            name,
            0,
            gpus=(),
            instances=((PROFILE, 7),),
            labels=labels | {"kubernetes.io/hostname": name},
            gpu_mib=None,
        )
        for name in "ab"
    }
    twice = msgspec.structs.replace(nodes["a"], is_offered_twice=True)
    request = eighths(1, mode="mig", writes_limits=False)
    assert refusal(ledger_of(twice), request)
    found = placed(ledger_of(twice, nodes["b"]), request)
    assert (found.node, found.other_hosts) == ("b", ("a",))


def test_an_assumed_node_is_none_that_is_offered_twice():
    request = eighths(4, assume=Assumption(gpus_per_node=2, gpu_mib=81920))
    found = placed(ledger_of(twice_node("a")), request)
    assert (found.degraded, found.other_hosts) == (True, ("a",))


def test_where_nothing_is_offered_twice_no_host_is_named():
    ledger = Ledger()
    ledger.replace([gpu_node("a"), gpu_node("b")], ())
    found = placed(ledger)
    assert (found.hosts, found.other_hosts) == ((), ())


def mixed_node(name, *models, twice=()):
    node = node_of(name, *models)
    return msgspec.structs.replace(node, offered_twice=frozenset(twice), cordoned=frozenset(twice))


def of_80_gb(**changes):
    return eighths(4, kinds=OF_80, **BY_AGENT, **changes)


def test_of_hosts_that_only_their_cards_recommend_those_whose_card_is_offered_twice_are_not_named():
    twice, full = mixed_node("b", SMALL, LARGE, LARGE, twice=[1]), holder("full", "b", (2, 8))
    ledger = ledger_of(node_of("a", SMALL, LARGE), twice, holders=(full,))
    found = placed(ledger, of_80_gb())
    assert (found.node, found.indices, found.hosts) == ("a", (1,), ("a.local",))


def test_a_node_whose_only_card_of_the_kind_is_offered_twice_holds_no_pod_of_that_kind():
    ledger = ledger_of(mixed_node("a", SMALL, LARGE, SMALL, twice=[1]))
    assert ASK_THE_ADMIN in refusal(ledger, of_80_gb())
    assert placed(ledger, eighths(4, **BY_AGENT)).indices in {(0,), (2,)}
