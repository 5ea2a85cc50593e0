"""What a made-up API server holds: nodes, pods and GpuNodes, honest ones and others."""

from __future__ import annotations

import random
from typing import Any

from kube.names import (
    GPU_INDEX_ANNOTATION,
    INJECTED_ANNOTATION,
    MEMORY_MIB_ANNOTATION,
    RESERVATION_ANNOTATION,
    SLICES_ANNOTATION,
)
from kube.objects import PLACED_WEIGHT
from ledger.placement_request import Placement, PlacementRequest
from modes.units import POOL, Profile, Unit
from tests.cluster import objects
from tests.ledger.strategies import KEYS, PRODUCTS, VALUES
from tests.long.campaign import hostile

Object = dict[str, Any]
MEMORY, PRODUCT = "nvidia.com/gpu.memory", "nvidia.com/gpu.product"
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TAINTS = (
    {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
    {"key": "team", "effect": "NoExecute", "value": "blue"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
)


def node(name: str, dice: random.Random) -> Object:
    """A node of any kind."""
    gpus = dice.choice([0, 1, 2, 2, 4, 8])
    made = objects.node(name, gpus=gpus, version=version(dice))
    amounts, labels = made["status"]["allocatable"], made["metadata"]["labels"]
    labels |= {key: dice.choice(VALUES) for key in KEYS if dice.random() < 0.4}
    labels |= {"kubernetes.io/hostname": name, MEMORY: dice.choice(["16384", "81920", "81920"])}
    labels |= {PRODUCT: dice.choice([*PRODUCTS, "NVIDIA-A100-SXM4-80GB"])}
    if gpus == 0:
        amounts |= {f"nvidia.com/mig-{profile}": str(dice.randint(0, 3)) for profile in PROFILES}
    if dice.random() < 0.1:
        labels |= {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "8"}
        amounts |= {"nvidia.com/gpu": "16"}
    if dice.random() < 0.2:
        amounts |= {f"nvidia.com/gpu-{dice.randrange(4)}": dice.choice(["0", "7", "4", "999", "1k"])}
    if dice.random() < 0.1:
        made["spec"] = {"taints": [dict(dice.choice(TAINTS))]}
    if dice.random() < 0.1:
        made["spec"]["unschedulable"] = True
    if dice.random() < 0.1:
        made["metadata"]["annotations"] = {"clearml-injector/cordon": dice.choice(["0", "0,1", "x", "0-3"])}
    if dice.random() < 0.1:
        made["status"]["conditions"] = [{"type": "Ready", "status": dice.choice(["False", "Unknown"])}]
    return made


def gpu_node(name: str, dice: random.Random) -> Object:
    """What a node's agent says."""
    cards = [
        {"index": index, "memoryMiB": dice.choice([16384, 40960, 81920]), "healthy": dice.random() < 0.9}
        for index in range(dice.choice([0, 1, 2, 4, 8]))
    ]
    status = {"registered": dice.random() < 0.9, "bootID": "b", "gpus": cards}
    return {"metadata": {"name": name, "resourceVersion": version(dice)}, "status": status}


def _resource(unit: Unit) -> str:
    if isinstance(unit, Profile):
        return unit.resource
    return "nvidia.com/gpu" if unit is POOL else f"nvidia.com/gpu-{unit}"


def pod_of(name: str, request: PlacementRequest, placement: Placement, dice: random.Random) -> Object:
    """The pod for which a placement was asked, as it was stored."""
    allocated = request.share.allocated(placement)
    amounts = {_resource(unit): str(amount) for unit, amount in allocated.takes}
    made = pod(name, request.accounting.namespace, amounts, dice)
    notes = {
        INJECTED_ANNOTATION: "default@x",
        SLICES_ANNOTATION: str(request.share.fraction.slices),
        GPU_INDEX_ANNOTATION: ",".join(map(str, placement.indices)),
        MEMORY_MIB_ANNOTATION: "1",
    }
    notes |= {RESERVATION_ANNOTATION: placement.reservation} if placement.reservation else {}
    made["metadata"] |= {"annotations": notes, "labels": {"clearml-injector/fraction": "0.500"}}
    if placement.node is not None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [placement.node]}]}
        made["spec"]["affinity"] = {
            "nodeAffinity": {PREFERRED: [{"weight": PLACED_WEIGHT, "preference": term}]}
        }
    return made


def stray_pod(name: str, namespace: str, nodes: list[str], dice: random.Random) -> Object:
    """A pod that nobody asked for, bound or not, with any amounts."""
    names = ["nvidia.com/gpu", "cpu", *(f"nvidia.com/gpu-{index}" for index in (0, 1, 2, 999))]
    names += [f"nvidia.com/mig-{profile}" for profile in PROFILES]
    amounts = {
        dice.choice(names): dice.choice(["1", "2", "4", "8", "1k", "0"]) for _ in range(dice.randint(0, 3))
    }
    made = pod(name, namespace, amounts, dice)
    if dice.random() < 0.5 and nodes:
        made["spec"]["nodeName"] = dice.choice([*nodes, "nowhere"])
    return made


def pod(name: str, namespace: str, amounts: dict[str, str], dice: random.Random) -> Object:
    """A pod that waits."""
    made = objects.pod(name, version=version(dice))
    made["metadata"] |= {"namespace": namespace, "uid": f"uid-{name}"}
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made["spec"] = {"containers": [{"name": "task", "resources": {"limits": amounts, "requests": amounts}}]}
    made["status"] = {"phase": "Pending"}
    return made


def damaged(found: Object, dice: random.Random) -> Object:
    """Break or grow an object anywhere but in what names it."""
    review: Any = {"request": {"object": found}}
    names = {key: found["metadata"].get(key) for key in ("name", "namespace") if key in found["metadata"]}
    try:
        for _ in range(dice.choice((1, 1, 2, 3))):
            (hostile.damage if dice.random() < 0.8 else hostile.enlarge)(review, dice)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError):
        pass  # what was damaged before has no such place any more
    made = review["request"]["object"]
    if not isinstance(made, dict):
        return {"metadata": names}
    if not isinstance(made.get("metadata"), dict):
        made["metadata"] = {}
    made["metadata"] |= names
    return made


def version(dice: random.Random) -> str:
    """A resource version: nothing may be read off it."""
    return str(dice.randrange(10**6))
