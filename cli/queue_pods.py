"""What admission would deny of the pods that ClearML's agent makes of a queue's template."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from cli.explainer import review_of
from kube.names import ASKING_LABELS, CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION
from policies.loading.clearml_chart import ChartQueue, Mistake, mistakes
from policies.model.effective import EffectivePolicy
from policies.model.problems import Path
from webhook.admission.denial import Denial
from webhook.admission.pod import Pod
from webhook.admission_review import decode
from webhook.policy_resolver import ResolvedPolicy
from webhook.rules import Rules

Json = Mapping[str, Any]
_OF_THE_CONTAINER = ("resources", "env", "envFrom", "volumeMounts", "volumeDevices")
_OF_THE_CHART = ("labels", "annotations", "containerSecurityContext", "podSecurityContext", "fileMounts")
_LAST = {"annotations": 1, "labels": 2}
"""Parts of a template that others depend on: they are to blame only if no other part is."""
_OF_CONTAINER_NAMES = (CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION)
"""Annotations that depend on a pod's containers, whose names only the agent knows."""


def all_mistakes(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Mistake]:
    """Yield everything for which a queue's pods would be denied, as `mistakes` does."""
    found = list(mistakes(queue, policy))
    yield from found
    if policy.gives_share:
        yield from _denials(_without(queue.template, [path for path, _ in found]), policy)


def pod_of(template: Json) -> dict[str, Any]:
    """Return the pod that the agent makes of a template; keys that the charts do not name are the pod's."""
    container = {key: template[key] for key in _OF_THE_CONTAINER if key in template}
    annotations = template.get("annotations")
    if isinstance(annotations, dict):
        annotations = {key: each for key, each in annotations.items() if key not in _OF_CONTAINER_NAMES}
    spec = {key: value for key, value in template.items() if key not in _OF_THE_CHART + _OF_THE_CONTAINER}
    task = {"name": "task", **container, "securityContext": template.get("containerSecurityContext")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "task", "labels": template.get("labels"), "annotations": annotations},
        "spec": {**spec, "securityContext": template.get("podSecurityContext"), "containers": [task]},
    }


def _denials(template: Json, policy: EffectivePolicy) -> Iterator[Mistake]:
    """Yield each denial at the key of the template without which there would be another one, or none."""
    while denial := _denial(template, policy):
        keys = sorted(template, key=lambda key: _LAST.get(key, 0))
        cause = next((key for key in keys if _denial(_without(template, [(key,)]), policy) != denial), None)
        yield () if cause is None else (cause,), denial.message
        if cause is None:
            return
        template = _without(template, [(cause,)])


def _denial(template: Json, policy: EffectivePolicy) -> Denial | None:
    """Return why a template's pod would be denied; None if it would not, or has no label."""
    labels = template.get("labels")
    if not isinstance(labels, dict) or all(labels.get(label) is None for label in ASKING_LABELS):
        return None
    request = decode(msgspec.json.encode(review_of(_without_nulls(pod_of(template)))))
    if not isinstance(request.object, Pod):
        return request.object if isinstance(request.object, Denial) else None
    decided = Rules().begin(request, request.object, ResolvedPolicy(policy, ()))
    return decided if isinstance(decided, Denial) else None


def _without(template: Json, paths: Iterable[Path]) -> Json:
    """Return a template with null for the values at some paths: items of lists stay where they are."""
    left = dict(copy.deepcopy(template))
    for path in paths:
        parent: Any = left
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = None
    return left


def _without_nulls(value: Any) -> Any:
    """Return a value without nulls, which the API server takes for missing fields."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value if each is not None]
    return value
