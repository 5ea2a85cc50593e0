"""Quotas in MiB count what cards give: asked memory, parts of a card, several GPUs, unknown cards."""

from typing import Any

import pytest

from ledger.gpu_memory import UNKNOWN_CARD_MIB, memory_of_pod
from ledger.ledger import Ledger
from ledger.placement_request import Assumption, OverQuota, Placement, PlacementRequest, Quota
from modes.facts import PodFact
from modes.fraction import Fraction
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, read_pod, request_of

CARD = 81920
EIGHTH = CARD // 8
RED = Quota("namespace", "red", memory_mib=CARD)


def asked(fraction: Fraction, quota: Quota = RED, **changes: Any) -> PlacementRequest:
    return request_of(fraction, namespace="red", quotas=(quota,), **changes)


def used(ledger: Ledger, quota: Quota = RED) -> int:
    return ledger.mib_used_of([quota])[quota.name]


def test_a_whole_gpu_without_a_node_counts_as_the_largest_card_that_it_may_get() -> None:
    full = [holder(name, name, (0, 8), namespace="blue") for name in ("small", "large")]
    ledger = ledger_of(gpu_node("small", 1, mib=16384), gpu_node("large", 1), holders=tuple(full))
    assert isinstance(ledger.place(asked(Fraction(8, 8), reservation="r"), 0.0), Placement)
    assert used(ledger) == CARD
    pod = holder("p", None, (0, 8), namespace="red", reservation="r")
    ledger.set_pod(pod)
    assert used(ledger) == CARD, "it has become the pod"
    ledger.set_pod(holder("p", "small", (0, 8), namespace="red", reservation="r"))
    assert used(ledger) == 16384


def test_a_card_that_no_label_sizes_counts_as_the_largest_known_and_else_as_none_can_be() -> None:
    bare = gpu_node("bare", 1, labels={}, gpu_mib=None)
    pod = holder("p", "bare", (0, 4), namespace="red")
    ledger = ledger_of(bare, holders=(pod,))
    assert used(ledger) == UNKNOWN_CARD_MIB // 2
    ledger.set_node(gpu_node("a"))
    assert used(ledger) == CARD // 2
    ledger.set_node(gpu_node("bare", 1, mib=16384))
    assert used(ledger) == 8192
    ledger.remove_node("bare")
    assert used(ledger) == CARD, "without its node nobody knows how many slices a card has"


def test_where_nodes_are_made_on_demand_a_card_is_as_the_policy_assumes() -> None:
    ledger, assume = ledger_of(), Assumption(8, CARD)
    placed(ledger, asked(Fraction(4, 8), assume=assume, reservation="r"))
    ledger.set_pod(holder("p", None, (0, 4), namespace="red", reservation="r", share=(1, 2)))
    placed(ledger, asked(Fraction(4, 8), assume=assume))
    over = ledger.place(asked(Fraction(5, 8), assume=assume), 1.0)
    assert over == OverQuota(RED, CARD // 2, 5 * EIGHTH, CARD, "MiB")


def _pod(slices: str, labels: dict[str, str], said: dict[str, str] | None = None, **more: Any) -> PodFact:
    """A pod with slices of GPU 0 of node a, and annotations of ours."""
    gpu = {"nvidia.com/gpu-0": slices}
    return read_pod(gpu, labels=labels, annotations=_ours(said or {}), spec={"nodeName": "a"}, **more)


@pytest.mark.parametrize(
    ("labels", "mib"),
    [
        ({}, 4 * EIGHTH),
        ({"clearml-injector/fraction": "0.500"}, 4 * EIGHTH),
        ({"clearml-injector/fraction": "0.4"}, CARD * 4 // 10),
        ({"clearml-injector/fraction": "0.125"}, 3 * EIGHTH + 1),
        ({"clearml-injector/fraction": "1e9"}, 4 * EIGHTH),
        ({"clearml-injector/fraction": "9" * 5000}, 4 * EIGHTH),
        ({"clearml-injector/fraction": "4"}, 4 * EIGHTH),
        ({"clearml-injector/gpu-memory": "35Gi"}, 35840),
        ({"clearml-injector/gpu-memory": "37G"}, 35285),
        ({"clearml-injector/gpu-memory": "1Mi"}, 3 * EIGHTH + 1),
        ({"clearml-injector/gpu-memory": "900Gi"}, 4 * EIGHTH),
    ],
)
def test_a_label_is_believed_as_far_as_the_slices_agree(labels: dict[str, str], mib: int) -> None:
    """Where nothing forbids to change labels, a pod cannot shrink in its quota."""
    found = _pod("4", labels)
    assert memory_of_pod(found, gpu_node("a")).at_most(0) == mib


@pytest.mark.parametrize(("label", "mib"), [("0.500", 20480), ("2", 81920), (None, 122880)])
def test_slices_of_a_pool_count_by_what_the_node_says_of_its_gpus(label: str | None, mib: int) -> None:
    slices = {"0.500": 4, "2": 16, None: 24}[label]
    node = gpu_node("a", gpus=(), slices_per_gpu=0, pooled=32, pooled_gpus=4, gpu_mib=40960)
    labels = {"clearml-injector/fraction": label} if label else {}
    pod = read_pod({"nvidia.com/gpu": str(slices)}, labels=labels, spec={"nodeName": "a"})
    assert memory_of_pod(pod, node).at_most(0) == mib
    if label:
        assert memory_of_pod(pod, None).at_most(40960) == mib


def test_a_pod_that_keeps_its_placement_is_counted_by_the_card_that_it_is_bound_to() -> None:
    ledger = ledger_of(gpu_node("a"))
    brings = Placement((0,), 40960, ("40960",))
    quota = Quota("namespace", "red", memory_mib=20479)
    request = eighths(4, existing=brings, namespace="red", quotas=(quota,), reservation="r")
    assert ledger.place(request, 0.0) == OverQuota(quota, 0, 20480, 20479, "MiB")


def _by_agent(fraction: Fraction, **changes: Any) -> PlacementRequest:
    return asked(fraction, writes_limits=False, **changes)


@pytest.mark.parametrize(
    ("fraction", "mib"),
    [
        (Fraction.of_memory(1, 8), EIGHTH),
        (Fraction.of_memory(EIGHTH + 1, 8).on_each_of(2), 4 * EIGHTH),
        (Fraction.rounded_up("0.2", 8), 2 * EIGHTH),
        (Fraction.of_memory(2, 8).shared_by([Fraction.of_memory(1, 8)] * 2), 2 * EIGHTH),
    ],
)
def test_what_an_agent_limits_counts_as_its_slices_for_no_less_is_the_limit(
    fraction: Fraction, mib: int
) -> None:
    ledger = ledger_of(gpu_node("a", agent="serving"))
    placed(ledger, _by_agent(fraction, quota=Quota("namespace", "red", memory_mib=mib)))
    over = ledger.place(_by_agent(fraction, quota=Quota("namespace", "red", memory_mib=mib - 1)), 0.0)
    assert isinstance(over, OverQuota)
    assert over.asked == mib


@pytest.mark.parametrize(
    ("annotations", "mib"), [({"memory-mib": "1"}, EIGHTH + 1), ({}, 2 * EIGHTH), (None, EIGHTH + 1)]
)
@pytest.mark.parametrize("label", [{"gpu-memory": "1Mi"}, {"fraction": "0.0001"}])
def test_a_pod_without_mib_of_its_own_counts_as_its_slices(
    label: dict[str, str], annotations: dict[str, str] | None, mib: int
) -> None:
    said = None if annotations is None else {"injected": "default@0", **annotations}
    found = _pod("2", _ours(label), said or {})
    by_slices = memory_of_pod(found, gpu_node("a"))
    assert by_slices.at_most(CARD) == mib


def test_a_reservation_by_an_agents_policy_is_counted_as_the_pod_that_comes_of_it() -> None:
    ledger = ledger_of(gpu_node("a", agent="serving"))
    ledger.place(_by_agent(Fraction.of_memory(EIGHTH + 1, 8), reservation="r"), 0.0)
    before = used(ledger)
    label, said = _ours({"gpu-memory": f"{EIGHTH + 1}Mi"}), {"injected": "default@0", "reservation": "r"}
    ledger.set_pod(_pod("2", label, said))
    assert (before, used(ledger)) == (2 * EIGHTH, 2 * EIGHTH)


def _ours(texts: dict[str, str]) -> dict[str, str]:
    return {f"clearml-injector/{name}": text for name, text in texts.items()}


@pytest.mark.parametrize(
    ("slices", "annotations", "mib"),
    [("1", {}, 2 * EIGHTH), ("2", {"memory-mib": "1"}, 2 * EIGHTH + 1)],
    ids=["the agent limits them to their slices", "the label is believed as far as their slices agree"],
)
def test_several_containers_count_together(slices: str, annotations: dict[str, str], mib: int) -> None:
    said = {"injected": "default@0", **annotations}
    found = _pod(slices, _ours({"gpu-memory": "2Mi"}), said, containers=2)
    assert memory_of_pod(found, gpu_node("a")).at_most(0) == mib
