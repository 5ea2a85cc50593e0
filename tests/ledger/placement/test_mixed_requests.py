"""Fractions, exact shares, memory and kinds of GPU, churned on mixed cards: nothing is ever over a card."""

import random

import pytest

from kube.scheduling import Constraints, Requirement, with_requirement
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.effort import examples
from tests.ledger.cluster import gpu_node, holder

CARDS = {
    "Tesla-T4": 15360,
    "NVIDIA-L4": 23034,
    "NVIDIA-A100-SXM4-40GB": 40960,
    "NVIDIA-A100-SXM4-80GB": 81920,
}
PER_GPU = 8


def nodes():
    made = []
    for number in range(24):
        model, mib = list(CARDS.items())[number % len(CARDS)]
        node = gpu_node(f"n{number}", 4, mib)
        node.labels["nvidia.com/gpu.product"] = model
        made.append(node)
    return made


def asked(draw):
    kinds = GpuKinds(*draw.choice([((), 0), ((), 0), (("A100",), 0), (("T4", "L4"), 0), ((), 20000)]))
    fraction = draw.choice(
        [
            Fraction(draw.randint(1, 8), PER_GPU),
            Fraction.rounded_up(f"0.{draw.randint(1, 99):02}", PER_GPU),
            Fraction.of_memory(draw.randint(1, 90_000), PER_GPU),
            Fraction.of_memory(draw.randint(1, 20_000), PER_GPU).on_each_of(2),
        ]
    )
    least = Requirement("nvidia.com/gpu.memory", "Gt", (str(kinds.min_mib - 1),))
    terms = with_requirement(None, least) if kinds.min_mib else None
    return PlacementRequest(fraction, kinds=kinds, constraints=Constraints(required_terms=terms))


@pytest.mark.slow
def test_mixed_requests_never_pass_a_card():
    draw, ledger, facts = random.Random(7), Ledger(), nodes()  # noqa: S311 the same pods in each run
    ledger.replace(facts, ())
    by_name, held = {node.name: node for node in facts}, []
    placed = denied = 0
    for number in range(examples(10_000)):
        request = asked(draw)
        answer = ledger.place(request, float(number))
        if not isinstance(answer, Placement):
            denied += 1
            assert request.kinds.models or request.fraction.mib > max(CARDS.values()) or request.kinds.min_mib
        elif answer.node is not None:
            placed += 1
            node = by_name[answer.node]
            granted = request.granted(answer).fraction
            _check(request, answer, node, granted)
            each = [(index, granted.slices_on_each) for index in answer.indices]
            ledger.set_pod(holder(f"p{number}", answer.node, *each))
            held.append(number)
        if len(held) > 120 or (held and draw.random() < 0.3):
            ledger.remove_pod(("default", f"p{held.pop(draw.randrange(len(held)))}"))
        if isinstance(answer, Placement) and answer.node is not None:
            assert all(gpu.used <= gpu.capacity for gpu in ledger.node(answer.node).gpus)
    assert placed > denied


def _check(request, answer, node, granted):
    assert request.kinds.takes_model(node.labels["nvidia.com/gpu.product"])
    assert node.gpu_mib >= request.kinds.min_mib
    each, mib = granted.slices_on_each, node.gpu_mib
    if request.fraction.mib:
        assert each * mib >= request.fraction.mib * PER_GPU > (each - 1) * mib
        assert granted.share_mib(mib) == request.fraction.mib
    if not granted.is_whole:
        assert str(mib) in answer.memory_values
