"""Extended resources other than GPUs, such as those of network cards: facts of nodes, like CPU."""

import pytest

from ledger.from_kubernetes import MAX_OFFERED, node_from_object
from ledger.placement_request import MAX_EXTENDED
from modes.resource_names import ResourceNames
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, read_pod

RDMA = "rdma/hca"
WITHOUT, WITH = gpu_node("alpha"), gpu_node("beta", extended={RDMA: 2})
FULL = holder("full", "beta", (0, 8))
ASKS = eighths(4, extended=((RDMA, 1),))


def test_a_pod_goes_where_its_other_resources_are() -> None:
    found = placed(ledger_of(WITHOUT, WITH, holders=(FULL, holder("part", "alpha", (0, 4)))), ASKS)
    assert (found.node, found.indices) == ("beta", (1,))


def test_what_pods_and_reservations_hold_of_other_resources_is_not_free() -> None:
    ledger = ledger_of(WITHOUT, WITH, holders=(holder("other", "beta", extended=((RDMA, 1),)),))
    assert ledger.place(eighths(4, extended=((RDMA, 1),), reservation="r1"), 0.0).node == "beta"
    assert placed(ledger, ASKS).node is None
    ledger.release("r1")
    assert placed(ledger, ASKS).node == "beta"


def test_webhooks_are_told_what_is_taken_only_of_resources_that_a_node_offers() -> None:
    """A pod can name any others, and is bound to the node that its author names."""
    other = holder("other", "beta", extended=((RDMA, 1), ("example.com/any", 1)))
    room = ledger_of(WITH, holders=(other,)).room("beta")
    assert room is not None
    assert room[2] == {RDMA: 1}


def test_a_pod_waits_while_the_plugin_of_its_other_resources_is_away() -> None:
    assert placed(ledger_of(WITHOUT, gpu_node("beta", extended={RDMA: 0})), ASKS).node is None


def test_a_resource_that_no_node_offers_does_not_decide() -> None:
    assert placed(ledger_of(WITHOUT, WITH), eighths(4, extended=(("example.com/claimed", 1),))).node


def test_a_pod_waits_for_the_gpus_of_nodes_that_offer_its_other_resources() -> None:
    small = gpu_node("beta", mib=40960, extended={RDMA: 1})
    ledger = ledger_of(gpu_node("alpha"), small, holders=(holder("a", "beta", (0, 8), (1, 8)),))
    assert placed(ledger, ASKS).memory_values == ("40960",)


def test_other_resources_are_read_from_nodes_and_pods_as_far_as_real_ones_have_them() -> None:
    many = {f"example.com/{number:03}": "1" for number in range(100)}
    amounts = {"cpu": "1", "nvidia.com/gpu-0": "8", "hugepages-2Mi": "0", RDMA: "2"}
    node = node_from_object({"metadata": {"name": "n"}, "status": {"allocatable": amounts}}, ResourceNames())
    assert node.extended == {RDMA: 2}
    assert read_pod({"nvidia.com/gpu-0": "4", RDMA: "1"}, containers=2).extended == ((RDMA, 2),)
    assert len(read_pod(many).extended) == MAX_EXTENDED
    node = node_from_object({"metadata": {"name": "n"}, "status": {"allocatable": many}}, ResourceNames())
    assert len(node.extended) == MAX_OFFERED


def test_kubernetes_own_names_whose_amounts_are_no_whole_numbers_hide_neither_pods_nor_nodes() -> None:
    """The API server accepts any amount of these from everybody."""
    amounts = {"nvidia.com/gpu-0": "8", "kubernetes.io/any": "100m", "node.kubernetes.io/any": "1.5"}
    pod = read_pod(amounts)
    assert (pod.takes, pod.extended) == (((0, 8),), ())
    node = node_from_object({"metadata": {"name": "n"}, "status": {"allocatable": amounts}}, ResourceNames())
    assert (node.gpus, node.extended) == (((0, 8),), {})


@pytest.mark.parametrize("name", ["cpu", "memory", "example.com/any"])
@pytest.mark.parametrize("amount", ["1e30", "10e18", "1e1000"])
def test_amounts_beyond_64_bits_which_the_api_server_accepts_do_not_hide_what_a_pod_holds(
    name: str, amount: str
) -> None:
    """Its scheduler counts them as 0."""
    pod = read_pod({"nvidia.com/gpu-0": "8", RDMA: "1", name: amount})
    assert (pod.takes, pod.extended) == (((0, 8),), ((RDMA, 1),))
    assert (pod.cpu_milli, pod.memory_bytes) == (0, 0)


def test_an_amount_of_zero_does_not_hide_what_a_pod_holds() -> None:
    zeros = {f"example.com/{number:03}": "0" for number in range(MAX_EXTENDED)}
    assert read_pod({**zeros, RDMA: "1"}).extended == ((RDMA, 1),)
