"""Explains the objects of files, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from cli.explainer import Explainer, Explanation
from cli.manifests import ManifestError, read_objects
from cli.pod_diff import changed_lines, yaml_lines
from cli.printing import say, say_in
from kube.names import MEMORY_MIB_ANNOTATION
from kube.quantity import whole
from kube.reasons import Reason
from modes.instance import Instance
from policies.model.problems import printable
from webhook.admission_review import UnreadableReviewError

_ADD_CARDS = "make it by kubectl get nodes,pods,resourceslices,resourceclaims -A -o yaml"
COLOURS = {"+": "green", "-": "red"}


def explain_file(explainer: Explainer, file: Path) -> list[Explanation]:
    """Return the explanations of a file's objects; objects without pods, such as Services, are passed over.

    Raises:
        ManifestError: the file cannot be read, or nothing in it can be explained.
    """
    objects = read_objects(file)
    try:
        found = [each for one in objects for each in explainer.explain(one)]
    except UnreadableReviewError as error:
        raise ManifestError(f"{file}: {error}") from None
    if not found:
        rule = "give Pods, AdmissionReviews, or what has pod templates"
        raise ManifestError(f"{file}: kind {objects[0]['kind']} is not explained: {rule}")
    return found


def print_text(explanation: Explanation, *, patch: bool) -> None:
    """Print a decision with its reasons, and what changes: as a diff, or as operations of the patch."""
    facts = explanation.as_json()
    _print_decision(explanation, facts)
    for line in _details(explanation, facts):
        say(f"  {printable(line)}")
    if explanation.patch:
        changes = changed_lines(explanation.before, explanation.pod)
        for line in _operations(explanation) if patch else changes:
            say_in(COLOURS.get(line[:1], "reset"), f"  {line}")


def print_line(explanation: Explanation) -> None:
    """Print a decision in one line: what the pod gets and whether it would wait, or why it is denied."""
    facts = explanation.as_json()
    said = []
    if facts["slices"] is not None:
        # ClearML's agent names the container like the pod.
        of = f"container {facts['container']}: " if facts["container"] != explanation.name else ""
        said = [f"{of}{_share(explanation, facts)}", *_waits(facts)]
    _print_decision(explanation, facts, "; ".join([*said, *_answer(explanation, facts)]))


def _print_decision(explanation: Explanation, facts: dict[str, Any], said: str = "") -> None:
    decision, colour = ("allowed", "green") if explanation.allowed else ("denied", "red")
    rest = f": {said}" if said else ""
    say_in(colour, f"{explanation.name}: {decision} ({facts['code']}){rest}")


def _details(explanation: Explanation, facts: dict[str, Any]) -> Iterator[str]:
    yield from _answer(explanation, facts)
    if facts["slices"] is None:
        return
    limit = "limits from the agent of its node" if _is_by_agent(facts) else f"limiter {facts['limiter']}"
    yield f"policy {facts['policy']}, {limit}"
    if facts["alias"] is not None:
        yield f"alias: {facts['alias']}"
    yield from _replicas(facts)
    yield from _gpus(explanation, facts)
    if facts["prefer"]:
        why = facts["passedOver"] or f"{facts['prefer'][0]} has room"
        yield f"prefer {', '.join(facts['prefer'])}: {why}"
    gets = f"container {facts['container']}: {_share(explanation, facts)}"
    if facts["claim"] is not None:
        yield f"{gets}:"
        yield from (f"  {line}" for line in yaml_lines(facts["claim"]["spec"]["spec"]))
        return
    yield gets
    yield from _parts(explanation, facts)


def _answer(explanation: Explanation, facts: dict[str, Any]) -> Iterator[str]:
    """Yield why a pod is denied or gets no share, and what its author and the inventory may lack."""
    if not explanation.allowed:
        yield facts["message"]
    if explanation.unoffered:
        yield f"the inventory has no cards of DRA driver {explanation.unoffered}: {_ADD_CARDS}"
    yield from facts["notes"]
    if facts["code"] == Reason.NO_SHARE:
        by = f"queue {facts['queue']}" if facts["queue"] is not None else f"policy {facts['policy']}"
        yield f"{by} gives no share: label and GPU limits are removed"


def _is_by_agent(facts: dict[str, Any]) -> bool:
    return bool(facts["limitsFrom"] == "agent" and facts["limiter"] != "none")


def _gpus(explanation: Explanation, facts: dict[str, Any]) -> Iterator[str]:
    """Yield which GPUs a pod may get, or its claim may take, and whether a node has room."""
    kinds = ", ".join(map(_kind, facts["kinds"]))
    if facts["claim"] is None:
        yield f"GPUs that the pod may get: {kinds or 'the assumed ones'}"
    elif not explanation.unoffered:
        yield f"cards that its claim may take: {kinds or 'none'}"
    yield from _waits(facts)
    if facts["hasRoom"] and facts["claim"] is not None:
        yield "a node has room for it now"


def _waits(facts: dict[str, Any]) -> Iterator[str]:
    if facts["hasRoom"] is False:
        yield "no node has room for it now: it would wait"


def _share(explanation: Explanation, facts: dict[str, Any]) -> str:
    """Describe what a pod gets: an instance, a claim, or slices, which are equal on each of several GPUs."""
    if explanation.instance is not None:
        return f"MIG instance {_instance(explanation.instance, facts)}"
    memory = f", {facts['memoryMiB']} MiB" if facts["memoryMiB"] is not None else ""
    if facts["claim"] is not None:
        return f"claim of template {facts['claim']['template']}{memory}"
    number, index, is_divided = facts["slices"], facts["index"], "," in facts["container"]
    limited = ""
    if not is_divided:
        number //= len(index) if isinstance(index, list) and index else 1
        limited = _by_agent(explanation, number) if _is_by_agent(facts) else ""
    of, each = ("of each of GPU", " each") if number < facts["slices"] else ("of GPU", "")
    memory += each if memory else ""
    rule = ": the size of the slices on such a card" if limited else ""
    return f"{number} slice{'' if number == 1 else 's'} {of} {_index(index)}{memory}{limited}{rule}"


def _by_agent(explanation: Explanation, slices: int) -> str:
    """Return the agent's limit for slices of such a card, whatever MiB were requested; empty if not known."""
    injection, policy = explanation.outcome.injection, explanation.outcome.policy
    if injection is None or policy is None or not injection.placement.gpu_mib:
        return ""
    mib = injection.placement.gpu_mib * slices // policy.slices_per_gpu - policy.reserve_mib
    return f", limited to {mib} MiB by the agent"


def _operations(explanation: Explanation) -> Iterator[str]:
    for operation in explanation.patch:
        value = f" {json.dumps(operation['value'])}" if "value" in operation else ""
        yield f"{operation['op']:7} {operation['path']}{value}"


def _parts(explanation: Explanation, facts: dict[str, Any]) -> Iterator[str]:
    """Yield the part of each of several containers, in the order of the pod's annotation."""
    names, policy = facts["container"].split(","), explanation.outcome.policy
    if len(names) == 1 or policy is None:
        return
    spec = explanation.pod["spec"]
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    limits = {each["name"]: each["resources"]["limits"] for each in containers if each["name"] in names}
    said = explanation.pod["metadata"]["annotations"].get(MEMORY_MIB_ANNOTATION, "")
    for name, mib in zip_longest(names, said.split(",") if said else ()):
        kinds = {resource: policy.mode.kinds[resource] for resource in limits[name]}
        amounts = [
            (limits[name][resource], resource)
            for resource, kind in kinds.items()
            if kind is not None and (kind.is_index or kind.is_pool)
        ]
        limit = f", {mib} MiB" if mib else ""
        if _is_by_agent(facts):
            limit = _by_agent(explanation, sum(whole(amount) for amount, _ in amounts))
        yield f"  {name}: {', '.join(f'{amount} of {resource}' for amount, resource in amounts)}{limit}"


def _instance(instance: Instance, facts: dict[str, Any]) -> str:
    """Describe a pod's instance, its models, and whether it is more than twice the request."""
    idle = ", more than twice the request" if instance.is_more_than_twice else ""
    models = ", ".join(instance.products)
    return f"{facts['profile']}, {facts['memoryMiB']} MiB, {facts['slices']}/8 of {models}{idle}"


def _kind(kind: dict[str, Any]) -> str:
    unit = "card" if "cards" in kind else "node"
    number = kind[f"{unit}s"]
    counted = f"{number} {unit}" if number == 1 else f"{number} {unit}s"
    memory = f" of {kind['memoryMiB']} MiB" if kind["memoryMiB"] else ""
    return f"{kind['model'] or 'unknown model'}{memory} ({counted})"


def _replicas(facts: dict[str, Any]) -> Iterator[str]:
    """Describe how other pods of the owner affect the placement, if the policy uses them."""
    if facts["place"] != "spread" and not facts["sameModel"]:
        return
    if facts["owner"] is None:
        yield "place pack: neither controller, generateName nor queue name the pod's owner"
        return
    if facts["place"] == "spread":
        yield f"place spread: away from other pods of {facts['owner']}, over nodes and then over GPUs"
    if facts["sameModel"]:
        model = f": {facts['model']}" if facts["model"] is not None else ""
        yield f"sameModel: GPUs of one model for all pods of {facts['owner']}{model}"


def _index(index: int | list[int] | None) -> str:
    if index is None or index == []:
        return "any (pooled)"
    *first, last = [index] if isinstance(index, int) else index
    return f"{', '.join(map(str, first))} and {last}" if first else str(last)
