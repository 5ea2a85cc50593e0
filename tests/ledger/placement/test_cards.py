"""Nodes whose GPUs differ, or are not what the node's labels say: placing goes by each card."""

import msgspec
import pytest

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL
from ledger.placement_request import MAX_HOSTS, Placement, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, request_of

SMALL, LARGE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"
MIB = {SMALL: 40960, LARGE: 81920}
OF_80 = GpuKinds(("A100-80",))
AT_LEAST_60 = GpuKinds((), 61440)
BY_AGENT = {"writes_limits": False}


def node_of(name: str, *models: str, label: str | None = None, **changes: object) -> NodeFact:
    """A node whose agent says its cards; its labels say the first card, or `label`."""
    said = label or models[0]
    labels = {GPU_MEMORY_LABEL: str(MIB[said]), GPU_PRODUCT_LABEL: said, HOSTNAME_LABEL: f"{name}.local"}
    cards = tuple((index, MIB[model]) for index, model in enumerate(models))
    facts = {"labels": labels, "cards": cards, "card_models": models, "agent": "serving"}
    return gpu_node(name, len(models), MIB[said], **(facts | changes))


@pytest.mark.parametrize("kinds", [OF_80, AT_LEAST_60])
def test_in_mode_pooled_labels_and_cards_must_both_say_it_as_no_host_is_named(kinds):
    """The pod asks labels for the kind, so that it would wait for ever where only the cards are of it."""
    pool = {"gpus": (), "slices_per_gpu": 0, "pooled": 16, "pooled_gpus": 2}
    asked = eighths(16, mode="pooled", kinds=kinds, **BY_AGENT)
    told_by_cards = node_of("a", LARGE, LARGE, label=SMALL, **pool)
    assert isinstance(ledger_of(told_by_cards).place(asked, 0.0), Unschedulable)
    told_by_labels = node_of("b", SMALL, SMALL, label=LARGE, **pool)
    assert isinstance(ledger_of(told_by_labels).place(asked, 0.0), Unschedulable)
    both = node_of("c", LARGE, LARGE, **pool)
    assert placed(ledger_of(told_by_cards, told_by_labels, both), asked).node == "c"


def test_where_the_label_says_it_hosts_whose_card_of_that_number_is_another_are_shut_out():
    ledger = ledger_of(node_of("whole", LARGE, LARGE), node_of("liar", LARGE, SMALL))
    first = placed(ledger, eighths(8, kinds=OF_80, reservation="r-0", **BY_AGENT))
    assert (first.models, first.hosts) == ((LARGE,), ())
    ledger = ledger_of(
        node_of("whole", LARGE, LARGE),
        node_of("liar", LARGE, SMALL),
        holders=(holder("p", "whole", (0, 8)), holder("q", "liar", (0, 8))),
    )
    second = placed(ledger, eighths(4, kinds=OF_80, **BY_AGENT))
    assert (second.node, second.indices) == ("whole", (1,))
    assert (second.models, second.hosts, second.other_hosts) == ((LARGE,), (), ("liar.local",))


def test_with_more_such_hosts_than_can_be_shut_out_the_pod_is_bound_to_those_that_suit():
    liars = [node_of(f"liar-{number:02}", LARGE, SMALL) for number in range(MAX_HOSTS + 1)]
    full = tuple(holder(f"p-{node.name}", node.name, (0, 8)) for node in liars)
    whole = [node_of(f"whole-{number:02}", LARGE, LARGE) for number in range(MAX_HOSTS + 1)]
    ledger = ledger_of(*whole, *liars, holders=(*full, holder("q", whole[-1].name, (0, 8))))
    answer = placed(ledger, eighths(4, kinds=OF_80, **BY_AGENT))
    assert (answer.node, answer.indices, answer.other_hosts) == (whole[-1].name, (1,), ())
    named = [*whole[: MAX_HOSTS - 1], whole[-1]]
    assert answer.hosts == tuple(f"{node.name}.local" for node in named), "the chosen one among them"


def test_a_host_whose_label_denies_the_kind_of_its_card_is_named_instead_of_the_kind():
    ledger = ledger_of(node_of("whole", LARGE, LARGE), node_of("odd", SMALL, SMALL, LARGE))
    answer = placed(ledger, eighths(4, kinds=OF_80, **BY_AGENT))
    assert (answer.node, answer.indices) == ("odd", (2,))
    assert (answer.hosts, answer.models) == (("odd.local",), ())


def test_several_gpus_of_nodes_without_equal_ones_are_denied():
    ledger = ledger_of(node_of("mixed", SMALL, LARGE))
    answer = ledger.place(request_of(Fraction(8, 8, 2), **BY_AGENT), 0.0)
    assert isinstance(answer, Unschedulable)
    assert "equal" in answer.why
    assert isinstance(ledger.place(eighths(16, **BY_AGENT), 0.0), Placement), "whole GPUs have no limit"


def test_a_limit_by_the_label_is_never_written_for_a_smaller_card():
    ledger = ledger_of(node_of("liar", LARGE, SMALL), holders=(holder("p", "liar", (0, 8)),))
    answer = placed(ledger, eighths(4))
    assert (answer.node, answer.indices) == (None, (0,))
    assert placed(ledger, eighths(4, **BY_AGENT)).indices == (1,)


def test_without_an_agent_the_label_says_what_a_card_is():
    plain = node_of("plain", SMALL, LARGE, cards=(), card_models=(), agent="unknown")
    answer = placed(ledger_of(plain), eighths(4, kinds=GpuKinds(("A100-40",))))
    assert (answer.node, answer.models, answer.hosts) == ("plain", (SMALL,), ())
    assert isinstance(ledger_of(plain).place(eighths(4, kinds=OF_80), 0.0), Unschedulable)


def test_containers_on_different_gpus_may_have_unequal_cards_and_only_such_as_the_pod_takes():
    request = request_of(Fraction(12, 8, split=(6, 6), is_apart=True), any_gpu=True, **BY_AGENT)
    assert placed(ledger_of(node_of("mixed", SMALL, LARGE)), request).containers in {(0, 1), (1, 0)}
    narrowed = request_of(request.share.fraction, any_gpu=True, kinds=OF_80, **BY_AGENT)
    answer = placed(ledger_of(node_of("mixed", LARGE, SMALL, LARGE)), narrowed)
    assert set(answer.containers) == {0, 2}


def test_a_pod_that_waits_for_its_owners_model_is_bound_to_what_the_label_says():
    """A card's own MiB, which differ a little from the label's, would lead to no node at all."""
    cards = ((0, 40000), (1, 40000), (2, 40000))
    node = node_of("mixed", SMALL, LARGE, SMALL, cards=cards)
    ledger = ledger_of(node, holders=(holder("p", "mixed", (0, 8)),))
    owned = {"owner": "train", "same_model": True, "writes_limits": False}
    answer = placed(ledger, request_of(Fraction(8, 8, parts=2), namespace="n", **owned))
    assert (answer.node, answer.indices) == (None, (0, 2))
    assert (answer.model, answer.memory_values) == (SMALL, ("40960",))


def test_a_host_whose_name_is_no_value_of_a_label_is_not_named():
    """Such an answer would be none that a webhook can read, and pods beside it would get none either."""
    odd = node_of("x" * 64, LARGE, SMALL, label=SMALL)
    odd = msgspec.structs.replace(odd, labels={k: v for k, v in odd.labels.items() if k != HOSTNAME_LABEL})
    plain = node_of("plain", SMALL, SMALL)
    ledger = ledger_of(odd, plain, holders=(holder("p", odd.name, (1, 8)),))
    answer = placed(ledger, eighths(4, kinds=GpuKinds(("A100-40",)), **BY_AGENT))
    assert answer.node == "plain"
    assert all(len(host) <= 63 for host in (*answer.hosts, *answer.other_hosts))


def test_a_card_of_another_model_than_the_label_says_is_shown_with_it():
    view = ledger_of(node_of("n", SMALL, LARGE)).node("n")
    assert view is not None
    assert [gpu.model for gpu in view.gpus] == [None, LARGE]
