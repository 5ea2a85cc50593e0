"""Finds the pod templates of an object of any kind."""

from __future__ import annotations

from typing import Any

from kube.names import ASKING_LABELS
from webhook.admission.denial import Denial
from webhook.admission.jobs import label_not_on_template

TEMPLATE_PATHS = {
    "CronJob": "spec.jobTemplate.spec.template",
    "DaemonSet": "spec.template",
    "Deployment": "spec.template",
    "ReplicaSet": "spec.template",
    "StatefulSet": "spec.template",
}
"""Kinds that the second lock rejects if only they have the label; for a Job the webhook does it."""

COPIES_LABELS = frozenset({"Notebook"})
"""Kinds whose controllers give the object's labels to its pods: Kubeflow's notebooks."""


def pod_templates(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Yield every pod template with its path, in order, also in kinds of Kubeflow, Ray and others."""
    templates: list[tuple[str, dict[str, Any]]] = []
    left: list[tuple[str, Any]] = list(_children("", found))[::-1]
    while left:
        path, value = left.pop()
        if _is_template(value):
            templates.append((path, value))
        else:
            left.extend(list(_children(path, value))[::-1])
    return templates


def refuse_label(found: dict[str, Any]) -> Denial | None:
    """Refuse a workload with the label if its pods would not have it, as the second lock does."""
    path = TEMPLATE_PATHS.get(found["kind"])
    if path is None or not _is_labelled(found):
        return None
    template: Any = found
    for key in path.split("."):
        template = template.get(key) or {}
    if _is_labelled(template):
        return None
    return label_not_on_template(found["kind"], path, found["metadata"]["labels"])


def _is_labelled(found: dict[str, Any]) -> bool:
    labels = (found.get("metadata") or {}).get("labels")
    return isinstance(labels, dict) and not labels.keys().isdisjoint(ASKING_LABELS)


def _children(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{path}.{key}" if path else str(key), child) for key, child in value.items()]
    if isinstance(value, list):
        return [(f"{path}[{number}]", child) for number, child in enumerate(value)]
    return []


def _is_template(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata") or {}, dict):
        return False
    spec = value.get("spec")
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)
