"""Every kind of request churned on mixed cards: by a count of our own nothing is ever over a card."""

import random
from collections import Counter

from kube.scheduling import Constraints, Requirement, with_requirement
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.effort import by_turns
from tests.ledger.cluster import gpu_node, holder, request_of

CARDS = {
    "Tesla-T4": 15360,
    "NVIDIA-L4": 23034,
    "NVIDIA-A100-SXM4-40GB": 40960,
    "NVIDIA-A100-SXM4-80GB": 81920,
}
PER_GPU = 8
REQUESTS = by_turns("ledger", usual=1000, full=10_000)


def asked(draw):
    kinds = GpuKinds(*draw.choice([((), 0), ((), 0), (("A100",), 0), (("T4", "L4"), 0), ((), 20000)]))
    fraction = draw.choice(
        [
            Fraction(draw.randint(1, 8), PER_GPU),
            Fraction(draw.choice([8, 16, 32]), PER_GPU),
            Fraction.rounded_up(f"0.{draw.randint(1, 99):02}", PER_GPU),
            Fraction.of_memory(draw.randint(1, 90_000), PER_GPU),
            Fraction.of_memory(draw.randint(1, 20_000), PER_GPU).on_each_of(2),
            Fraction(draw.randint(1, 7), PER_GPU).on_each_of(draw.randint(2, 4)),
            shared(draw),
            shared_memory(draw),
        ]
    )
    least = Requirement("nvidia.com/gpu.memory", "Gt", (str(kinds.min_mib - 1),))
    terms = with_requirement(None, least) if kinds.min_mib else None
    any_gpu = draw.random() < 0.7
    return request_of(fraction, kinds=kinds, constraints=Constraints(required_terms=terms), any_gpu=any_gpu)


def shared(draw):
    sizes = draw.choice([(4, 2), (2, 2, 2), (5, 1), (3, 3), (6, 1), (1, 4, 2)])
    return Fraction(sum(sizes), PER_GPU).shared_by([Fraction(each, PER_GPU) for each in sizes])


def shared_memory(draw):
    each = [draw.randint(1, 30_000) for _ in range(draw.randint(2, 3))]
    whole = Fraction.of_memory(sum(each), PER_GPU)
    return whole.shared_by([Fraction.of_memory(mib, PER_GPU) for mib in each])


def test_mixed_requests_never_pass_a_card():
    draw, ledger, outcomes = random.Random(7), Ledger(), Counter()  # noqa: S311 the same pods in each run
    nodes = {}
    for number, (model, mib) in enumerate(list(CARDS.items()) * 6):
        node = nodes[f"n{number}"] = gpu_node(f"n{number}", 4, mib)
        node.labels["nvidia.com/gpu.product"] = model
    ledger.replace(nodes.values(), ())
    held = {}
    for number in range(REQUESTS):
        request = asked(draw)
        answer = ledger.place(request, float(number))
        if not isinstance(answer, Placement):
            assert request.share.fraction.mib or request.demands.kinds.models or request.demands.kinds.min_mib
        elif answer.node is None:
            outcomes["waits"] += 1
        else:
            outcomes["apart" if answer.containers else "placed"] += 1
            shares = held[f"p{number}"] = shares_of(request, answer, nodes[answer.node])
            taken = Counter()
            for (_, index), slices, _ in shares:
                taken[index] += slices
            ledger.set_pod(holder(f"p{number}", answer.node, *sorted(taken.items())))
            check(ledger, nodes[answer.node], held)
        if len(held) > 150 or (held and draw.random() < 0.3):
            gone = draw.choice(list(held))
            del held[gone]
            ledger.remove_pod(("default", gone))
    assert outcomes["placed"] > 0.3 * REQUESTS
    assert outcomes["apart"] > 0.005 * REQUESTS
    assert outcomes["waits"] > 0.05 * REQUESTS


def check(ledger, node, held):
    """No card of a node is passed, and the ledger counts what we do."""
    slices, mib = Counter(), Counter()
    for gpu, part, limit in [share for shares in held.values() for share in shares]:
        slices[gpu] += part
        mib[gpu] += limit
    for gpu in ledger.node(node.name).gpus:
        assert gpu.used == slices[node.name, gpu.index] <= PER_GPU
        assert mib[node.name, gpu.index] <= node.gpu_mib


def shares_of(request, answer, node):
    """Return each share's GPU, slices and MiB, as the request itself says them."""
    assert request.demands.kinds.takes_model(node.labels["nvidia.com/gpu.product"])
    assert node.gpu_mib >= request.demands.kinds.min_mib
    fraction, mib = request.share.fraction, node.gpu_mib
    assert fraction.is_whole or str(mib) in answer.memory_values
    assert request.share.any_gpu or not answer.containers
    asked = fraction.split_mib or (fraction.mib,)
    sizes = [-(-each * PER_GPU // mib) for each in asked] if fraction.mib else fraction.pieces
    on = answer.containers or (answer.indices if not fraction.split else answer.indices * len(sizes))
    limits = asked if fraction.mib else [mib * size // PER_GPU for size in sizes]
    if fraction.exact:
        limits = [mib * fraction.exact[0] // fraction.exact[1]]
    if fraction.mib and not fraction.split:
        sizes, limits = sizes * len(on), limits * len(on)
    assert fraction.split or len({*on}) == len(on) == fraction.gpus
    return [((node.name, index), *each) for index, *each in zip(on, sizes, limits, strict=True)]
