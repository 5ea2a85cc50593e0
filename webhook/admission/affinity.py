"""Node affinity: requires nodes on which the pod's MiB are right, and prefers a node with room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL, MAX_LABEL_VALUE
from kube.objects import PLACED_WEIGHT
from kube.scheduling import NodeSelectorTerm
from ledger.placement_request import MAX_HOSTS, Placement
from modes.gpu_kinds import GpuKinds
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, append
from webhook.admission.pod import PodSpec

_NODE_AFFINITY = "/spec/affinity/nodeAffinity"
_REQUIRED_NAME = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_NAME = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = f"{_NODE_AFFINITY}/{_REQUIRED_NAME}"
_REQUIRED_TERMS = f"{_REQUIRED}/nodeSelectorTerms"
_PREFERRED = f"{_NODE_AFFINITY}/{_PREFERRED_NAME}"
_Required = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of a requirement."""
MAX_MODELS = 1000
"""In one expression of a pod that was injected before."""
MAX_MATCHED_MODELS = 64
"""Different models in such a pod that are matched with its patterns; a cluster has a few."""


def required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of the pod's required node affinity; None if it has none."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return None
    return tuple(affinity.required.node_selector_terms or ())


def refuse_empty_affinity(spec: PodSpec) -> Denial | None:
    """Refuse a required affinity with only empty terms: it matches no node, and must not match one later."""
    terms = required_terms(spec) if spec.affinity is not None else None
    if terms is None or not all(term.is_empty for term in terms):
        return None
    return Denial.of(
        Reason.AFFINITY,
        "the required node affinity has only empty terms, which match no node: add an expression to a term",
    )


def demanded_memories(spec: PodSpec) -> Iterator[tuple[str, ...]]:
    """Yield the values of each `nvidia.com/gpu.memory In` in a required term, the user's and ours, once."""
    for term in required_terms(spec) or ():
        yield from {
            requirement.values or (): None
            for requirement in term.match_expressions or ()
            if requirement.key == GPU_MEMORY_LABEL and requirement.operator == "In"
        }


def demanded_hosts(spec: PodSpec) -> tuple[str, ...]:
    """Return the hosts that each required term names last, if they are the same in all terms; else none."""
    named = {_last_hosts(term) for term in required_terms(spec) or () if not term.is_empty}
    hosts = named.pop() if len(named) == 1 else ()
    return hosts if len(hosts) <= MAX_HOSTS and all(len(host) <= MAX_LABEL_VALUE for host in hosts) else ()


def _last_hosts(term: NodeSelectorTerm) -> tuple[str, ...]:
    found = [
        each.values or ()
        for each in term.match_expressions or ()
        if (each.key, each.operator) == (HOSTNAME_LABEL, "In")
    ]
    return found[-1] if found else ()


def demands_models(spec: PodSpec, kinds: GpuKinds) -> bool:
    """Whether each term of the required affinity names only accepted models, or hosts.

    It names hosts if node labels have no accepted model, but agents report one.
    """
    if not kinds.models or demanded_hosts(spec):
        return True
    lists = named_models(spec)
    named = {model for each in lists for values in each for model in values}
    # Authors of pods write patterns and models.
    if len(named) > MAX_MATCHED_MODELS:
        return False
    taken = {model for model in named if len(model) <= MAX_LABEL_VALUE and kinds.takes_model(model)}
    return bool(lists) and all(any(map(taken.issuperset, each)) for each in lists)


def named_models(spec: PodSpec) -> list[list[tuple[str, ...]]]:
    """Return the sets of models that each required term names, the user's and ours; empty terms name none."""
    return [
        [
            each.values
            for each in term.match_expressions or ()
            if (each.key, each.operator) == (GPU_PRODUCT_LABEL, "In") and each.values
        ]
        for term in required_terms(spec) or ()
        if not term.is_empty
    ]


def bind_node(
    spec: PodSpec, placement: Placement, kinds: GpuKinds, refusing: Mapping[str, str]
) -> list[Operation]:
    """Require the placement's GPU memory values, and its models if any, and prefer its node.

    Every term that is not empty gets the requirement.

    Args:
        spec: the pod's.
        placement: its placement.
        kinds: the kinds of GPU that node labels must state.
        refusing: labels, each with its value, of nodes whose device plugin would fail the pod.
    """
    required = _required(placement, kinds)
    required += [(key, "NotIn", (value,)) for key, value in refusing.items()]
    existing = spec.affinity.node_affinity if spec.affinity is not None else None
    operations = [*_require(required_terms(spec), required)] if required else []
    if placement.node is not None:
        preferred = existing.preferred if existing is not None else None
        operations += append(_PREFERRED, preferred, [_preference(placement.node)])
    if not operations or existing is not None:
        return operations
    parent = add("/spec/affinity", {"nodeAffinity": {}}) if spec.affinity is None else add(_NODE_AFFINITY, {})
    return [parent, *operations]


def _required(placement: Placement, kinds: GpuKinds) -> list[_Required]:
    memory_values = placement.memory_values
    required: list[_Required] = [(GPU_MEMORY_LABEL, "In", memory_values)] if memory_values else []
    if placement.other_memory_values:
        required.append((GPU_MEMORY_LABEL, "NotIn", placement.other_memory_values))
    if placement.hosts:
        return [*required, (HOSTNAME_LABEL, "In", placement.hosts)]
    if placement.other_hosts:
        required.append((HOSTNAME_LABEL, "NotIn", placement.other_hosts))
    if placement.products:
        required.append((GPU_PRODUCT_LABEL, "In", placement.products))
    if kinds.min_mib:
        required.append((GPU_MEMORY_LABEL, "Gt", (str(kinds.min_mib - 1),)))
    return required


def _require(terms: tuple[NodeSelectorTerm, ...] | None, required: list[_Required]) -> Iterator[Operation]:
    if terms is None:
        expressions = [_expression(*one) for one in required]
        yield add(_REQUIRED, {"nodeSelectorTerms": [{"matchExpressions": expressions}]})
        return
    for position, term in enumerate(terms):
        missing = [_expression(*one) for one in required if not _demands(term, *one)]
        if term.is_empty or not missing:
            continue
        path = f"{_REQUIRED_TERMS}/{position}/matchExpressions"
        yield from append(path, list(term.match_expressions or ()), missing)


def _demands(term: NodeSelectorTerm, label: str, operator: str, values: tuple[str, ...]) -> bool:
    return any(
        (requirement.key, requirement.operator, requirement.values) == (label, operator, values)
        for requirement in term.match_expressions or ()
    )


def _expression(label: str, operator: str, values: tuple[str, ...]) -> dict[str, Any]:
    return {"key": label, "operator": operator, "values": list(values)}


def _preference(node: str) -> dict[str, Any]:
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"weight": PLACED_WEIGHT, "preference": {"matchFields": [by_name]}}
