"""Hostile reviews: real and made-up pods to tamper with, damage, adverse values, and great size."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.long.campaign.tampering import Object
from tests.webhook.support import FIXTURES, container, fixture_review, pod, review_of
from tests.webhook.support.field_values import VALUES
from tests.webhook.support.mutations import changed, places_in

SIZES = [2, 40, 150, 600, 3000]


def bases() -> list[Object]:
    """Reviews to begin with; each is of a create."""
    names = sorted(path.name.removesuffix(".json") for path in (FIXTURES / "admission-reviews").iterdir())
    recorded = [fixture_review(name) for name in names]
    asking = {"nvidia.com/gpu": "1"}
    sidecar = container("istio-proxy", restartPolicy="Always")
    made = [
        pod(),
        pod(containers=[container(limits=asking), container("side")]),
        pod(
            initContainers=[container("warm", limits=asking), sidecar], containers=[container(limits=asking)]
        ),
        pod(fraction="0.875", metadata={"name": None, "generateName": "task-"}),
        pod(
            fraction="0.125",
            volumes=[{"name": "data", "emptyDir": {}}],
            nodeSelector={"nvidia.com/gpu.present": "true"},
        ),
        pod(fraction=None),
        pod(labels={"clearml-agent-queue-name": "large"}),
        *other_requests(),
    ]
    return [each for each in recorded if each["request"]["operation"] == "CREATE"] + [
        review_of(one) for one in made
    ]


def other_requests() -> list[Object]:
    """Pods that ask for memory, for kinds of GPU, for several GPUs, and for parts for several containers."""
    memory, asking = {"clearml-injector/gpu-memory": "4Gi"}, {"nvidia.com/gpu": "1"}
    least, model = {"clearml-injector/min-gpu-memory": "20Gi"}, {"clearml-injector/gpu-model": "A100,A10*"}
    two, parts = {"clearml-injector/gpus": "2"}, "clearml-injector/containers"
    shared = [container(), container("eval"), container("side")]
    return [
        pod(fraction=None, labels=memory),
        pod(fraction=None, labels=memory, metadata={"labels": memory, "annotations": least}),
        pod(fraction=None, metadata={"labels": memory, "annotations": two | least}),
        pod(metadata={"annotations": model}, containers=[container(limits=asking), container("side")]),
        pod(metadata={"annotations": model | least}),
        pod(
            fraction="0.250", metadata={"annotations": two}, initContainers=[container("warm", limits=asking)]
        ),
        pod(fraction="0.750", containers=shared, metadata={"annotations": {parts: "train=0.500,eval=0.250"}}),
        pod(
            fraction=None,
            containers=shared,
            metadata={"labels": memory, "annotations": {parts: "train=3Gi,eval=1Gi"} | least},
        ),
    ]


def damage(review: Object, dice: random.Random) -> None:
    """Replace, remove or double one value anywhere below the request."""
    parent, key = review["request"], "object"
    while isinstance(parent[key], dict | list) and parent[key] and dice.random() < 0.85:
        parent = parent[key]
        key = dice.randrange(len(parent)) if isinstance(parent, list) else dice.choice(list(parent))
    match dice.randrange(3):
        case 0:
            parent[key] = dice.choice(
                [None, True, 0, -1, 10**20, 1.5, "", "x", "é\u2028", [], {}, [[]], {"name": "x"}, ["x"]]
            )
        case 1 if parent is not review["request"]:
            del parent[key]
        case _ if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))


def enlarge(review: Object, dice: random.Random) -> None:
    """Repeat one element of a list or a map, or lengthen a text, anywhere in the object."""
    found = review["request"]["object"]
    places: list[tuple[Any, Any]] = []
    waiting = [found]
    while waiting:
        one = waiting.pop()
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            places.append((one, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    if not places:
        return
    parent, key = dice.choice(places)
    value, size = parent[key], dice.choices(SIZES, [8, 4, 2, 1, 1])[0]
    if isinstance(value, list) and value:
        if dice.random() < 0.5:
            parent[key] = value * size
        else:
            parent[key] = [_numbered(value[0], number) for number in range(size)]
    elif isinstance(value, dict):
        parent[key] = {**value, **{f"x-{number}": "1" for number in range(size)}}
    elif isinstance(value, str):
        parent[key] = value * size


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {
            key: f"{text}-{number}" if key in ("name", "mountPath", "key") else text
            for key, text in value.items()
        }
    return f"{value}-{number}" if isinstance(value, str) else value


def vary(review: Object, dice: random.Random) -> Object:
    """Put a listed value, ordinary or adverse, into a field that a decision reads."""
    places = [(kind.__name__, path) for kind, path in places_in(review)]
    kind, path = dice.choice(places)
    fields = [field for field in VALUES if field.partition(".")[0] == kind]
    if not fields:
        return review
    field = dice.choice(fields)
    return changed(review, path, field, dice.choice(VALUES[field]))
