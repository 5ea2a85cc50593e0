"""On clusters of unequal cards, and of untrue labels, each answer is what the slow checker says."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.effort import by_turns, examples
from tests.ledger.cluster import gpu_node, holder, request_of
from tests.ledger.oracle import assert_right, slow_nodes

MODELS = {"A100-40GB": 40960, "A100-80GB": 81920, "H100": 81920}
KINDS = [
    GpuKinds(),
    GpuKinds(("A100*",)),
    GpuKinds(("H100",)),
    GpuKinds((), 61440),
    GpuKinds(("A100*",), 61440),
]
FRACTIONS = [
    *(Fraction(slices, 8) for slices in (1, 3, 4, 7, 8, 16)),
    *(Fraction(slices * parts, 8, parts) for slices, parts in ((2, 2), (4, 2), (3, 3))),
]
CLUSTERS = examples(400)


def card_node(rng: random.Random, name: str) -> NodeFact:
    """A node of one to four cards, whose labels may speak of another model."""
    models = rng.choices(list(MODELS), k=rng.randint(1, 4))
    said = rng.choice([models[0], models[-1], *MODELS])
    labels = {GPU_MEMORY_LABEL: str(MODELS[said]), GPU_PRODUCT_LABEL: said, HOSTNAME_LABEL: f"{name}.local"}
    node = gpu_node(name, len(models), MODELS[said], labels=labels, agent="serving")
    if rng.random() < 0.2:
        return node
    cards = tuple((index, MODELS[model]) for index, model in enumerate(models))
    return structs.replace(node, cards=cards, card_models=tuple(models))


def pool_node(rng: random.Random, name: str) -> NodeFact:
    """A node of a pool, of which containers hold something by its agent's books."""
    held = [rng.choice([0, 3, 5, 8]) for _ in range(rng.randint(1, 3))]
    node = structs.replace(card_node(rng, name), gpus=(), slices_per_gpu=0, cards=(), card_models=())
    return structs.replace(
        node, pooled=8 * len(held), pooled_gpus=len(held), pool_cards=tuple(enumerate(held))
    )


@pytest.mark.parametrize("seed", range(by_turns("ledger", usual=2, full=8)))
def test_pods_get_cards_that_suit_them_wherever_the_scheduler_binds_them(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment
    answers = {"placed": 0, "waits": 0, "hosts": 0, "other_hosts": 0, "denied": 0}
    for _ in range(CLUSTERS):
        nodes = {name: card_node(rng, name) for name in "abcd"[: rng.randint(1, 4)]}
        _place_some(rng, nodes, "per-gpu", answers)
    assert min(answers.values()) > 0, "every kind of answer was tried"


@pytest.mark.parametrize("seed", range(by_turns("ledger", usual=1, full=4)))
def test_no_pod_of_a_pool_is_bound_where_its_slices_are_of_several_cards(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment
    answers = {"placed": 0, "waits": 0, "hosts": 0, "other_hosts": 0, "denied": 0}
    for _ in range(CLUSTERS):
        nodes = {name: pool_node(rng, name) for name in "abc"[: rng.randint(1, 3)]}
        _place_some(rng, nodes, "pooled", answers)
    assert min(answers[each] for each in ("placed", "waits", "other_hosts", "denied")) > 0


def _place_some(rng: random.Random, nodes: dict[str, NodeFact], mode: str, answers: dict[str, int]) -> None:
    ledger = Ledger()
    pods = [
        holder(f"{name}-{index}", name, (index, rng.randint(1, 8)))
        for name, node in nodes.items()
        for index, _ in node.gpus
        if rng.random() < 0.5
    ]
    pods += [
        holder(f"{name}-pool-{index}", name, pooled=held)
        for name, node in nodes.items()
        for index, held in node.pool_cards
        if held
    ]
    ledger.replace(nodes.values(), pods)
    for number in range(3):
        request = request_of(
            rng.choice(FRACTIONS[:6] if mode == "pooled" else FRACTIONS),
            mode=mode,
            reservation=f"r-{number}",
            kinds=rng.choice(KINDS) if mode == "per-gpu" else KINDS[0],
            writes_limits=rng.random() < 0.5,
            owner=rng.choice(["", "train"]),
            same_model=rng.random() < 0.1,
        )
        before = slow_nodes(nodes.values(), pods, ledger)
        answer = ledger.place(request, 0.0)
        assert_right(answer, request, before)
        if not isinstance(answer, Placement):
            answers["denied"] += 1
            continue
        answers["placed" if answer.node is not None else "waits"] += 1
        answers["hosts"] += bool(answer.hosts)
        answers["other_hosts"] += bool(answer.other_hosts)
