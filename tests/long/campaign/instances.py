"""Policies that give MIG instances, nodes that have such, and ways to tamper with pods that get one."""

from __future__ import annotations

import random

from ledger.ledger import Ledger
from modes.facts import NodeFact
from modes.units import profile_of_resource
from tests.long.campaign.oracle import SINGLE
from tests.long.campaign.tampering import Object, Tamper, containers_of
from tests.webhook.support import policies

PRODUCT = "nvidia.com/gpu.product"
A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
QUOTAS = "quotas: {namespaces: {team: {slices: %d}, other: {slices: %d}}}"
KEYS = {
    "mig": "resources: {mode: mig}",
    "mig-first": "resources: {prefer: [mig, per-gpu]}",
    "slices-first": "resources: {prefer: [per-gpu, mig], oversized: take}",
    "mig-or-pool": "resources: {mode: pooled, prefer: [mig, pooled]}",
}
RESOURCES = [
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-2g.20gb",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-7g.80gb",
    "nvidia.com/mig-1g.10gb.me",
    "nvidia.com/mig-1g.10gb.gfx",
    "nvidia.com/gpu",
    "nvidia.com/gpu-0",
]
MODELS = [[A100], [H100], [A100, H100], [H100, A100], [SINGLE], [SINGLE, A100], ["other"]]


def policies_of(name: str, quota: int = 0):
    """Return the policies of one of `KEYS`, with a quota of so many slices for each namespace."""
    return policies(f"{KEYS[name]}\n{QUOTAS % (quota, quota) if quota else ''}")


def ledger_of_instances() -> Ledger:
    """Return an empty cluster of MIG nodes of either strategy, and of sliced ones of either mode."""
    made = Ledger()
    nodes = [
        _divided("divided-0", A100, {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2}),
        _divided("divided-1", H100, {"1g.10gb": 5, "7g.80gb": 2}),
        NodeFact(name="single-0", labels={PRODUCT: SINGLE}, pooled=4, pooled_gpus=4),
        _sliced("sliced-0", gpus=((0, 8), (1, 8)), slices_per_gpu=8),
        _sliced("pooled-0", pooled=16, pooled_gpus=2),
    ]
    made.replace(nodes, [])
    return made


def _divided(name: str, product: str, profiles: dict[str, int]) -> NodeFact:
    found = (
        (profile_of_resource(f"nvidia.com/mig-{each}").number, count) for each, count in profiles.items()
    )
    instances = tuple(sorted((number, count) for number, count in found if number is not None))
    return NodeFact(name=name, labels={PRODUCT: product}, instances=instances)


def _sliced(name: str, **gpus) -> NodeFact:
    labels = {PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}
    return NodeFact(name=name, labels=labels, gpu_mib=46068, **gpus)


def ask_by_name(pod: Object, dice: random.Random) -> None:
    """Have a container ask for instances, or for slices in addition to its instance."""
    resources = dice.choice(containers_of(pod)).setdefault("resources", {})
    for field in dice.choice([("limits", "requests"), ("limits",), ("requests",)]):
        amounts = resources.setdefault(field, {})
        amounts[dice.choice(RESOURCES)] = dice.choice(["0", "1", "1", "1", "2", 1, 0, "1k"])


def demand_models(pod: Object, dice: random.Random) -> None:
    """Demand models of GPU before or after what is demanded already."""
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    term = dice.choice(affinity.setdefault(name, {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"])
    demand = {
        "key": PRODUCT,
        "operator": dice.choice(["In", "In", "NotIn"]),
        "values": list(dice.choice(MODELS)),
    }
    expressions = term.setdefault("matchExpressions", [])
    expressions.insert(dice.choice([0, len(expressions)]), demand)


def claim(pod: Object, dice: random.Random) -> None:
    """Write or remove what an earlier review said."""
    said = pod["metadata"].setdefault("annotations", {})
    names = ("slices", "gpu-index", "memory-mib", "gpu-container", "injected")
    name = f"clearml-injector/{dice.choice(names)}"
    if dice.random() < 0.4:
        said.pop(name, None)
    else:
        said[name] = dice.choice(["0", "1", "2", "4", "8", "train", "default@1", ""])


TAMPERS: list[Tamper] = [*[ask_by_name] * 12, *[demand_models] * 8, *[claim] * 8]
