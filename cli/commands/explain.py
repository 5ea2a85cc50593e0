"""fraction-injector explain: previews the decision for pods, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.explainer import Explainer, Explanation
from cli.gpu_kinds import asks_for_kinds
from cli.manifests import ManifestError, read_objects
from cli.options import (
    UNUSABLE,
    InventoryOption,
    PoliciesOption,
    read_ledger,
    read_policies,
)
from cli.printing import say
from cli.terminal import Terminal
from kube.names import MEMORY_MIB_ANNOTATION
from kube.reasons import Reason
from policies.model.problems import printable
from service.options import DEFAULT_POLICIES
from webhook.admission_review import UnreadableReviewError

SOME_DENIED = 1


class ExplainOutput(StrEnum):
    """The output format of explanations."""

    TEXT = "text"
    JSON = "json"


def explain(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Pods, AdmissionReviews, or anything with pod templates; - is standard input.",
        ),
    ],
    *,
    policies: PoliciesOption = DEFAULT_POLICIES,
    inventory: InventoryOption = None,
    output: Annotated[ExplainOutput, typer.Option(help="Readable text, or JSON.")] = ExplainOutput.TEXT,
) -> None:
    """Preview pods: the decision, why, and the pod as it would be stored.

    The webhook's own code decides every object as if it were the only one. Exit status: 0 all are allowed, 1
    some are denied, 2 something cannot be read; the rest is explained in any case.
    """
    policy_set = read_policies(policies)
    explainer = Explainer(policy_set, read_ledger(policy_set, inventory))
    explanations: list[Explanation] = []
    unusable = [file for file in files if not _explain_file(explainer, file, explanations)]
    if output is ExplainOutput.JSON:
        documents = [explanation.as_json() for explanation in explanations]
        if documents:
            say(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    else:
        for explanation in explanations:
            _print(explanation)
    if unusable:
        raise typer.Exit(UNUSABLE)
    if not all(explanation.allowed for explanation in explanations):
        raise typer.Exit(SOME_DENIED)


def _explain_file(explainer: Explainer, file: Path, explanations: list[Explanation]) -> bool:
    """Add the explanations of a file; return False after a message if something in it cannot be explained."""
    try:
        for found in read_objects(file):
            explained = explainer.explain(found)
            if not explained:
                rule = "give Pods, AdmissionReviews, or what has pod templates"
                raise ManifestError(f"{file}: kind {found['kind']} is not explained: {rule}")  # noqa: TRY301
            explanations += explained
    except (ManifestError, UnreadableReviewError) as error:
        text = str(error) if isinstance(error, ManifestError) else f"{file}: {error}"
        say(f"fraction-injector: {text}", err=True)
        return False
    return True


def _print(explanation: Explanation) -> None:
    console, facts = Terminal(soft_wrap=True), explanation.as_json()
    decision = Text("allowed", "green") if explanation.allowed else Text("denied", "red")
    console.print(Text.assemble((printable(explanation.name), "bold"), ": ", decision, f" ({facts['code']})"))
    for line in _details(explanation, facts):
        console.print(f"  {printable(line)}")


def _details(explanation: Explanation, facts: dict[str, Any]) -> Iterator[str]:
    if not explanation.allowed:
        yield facts["message"]
    if facts["code"] == Reason.NO_SHARE:
        by = f"queue {facts['queue']}" if facts["queue"] is not None else f"policy {facts['policy']}"
        yield f"{by} gives no share: label and GPU limits are removed"
        yield from _operations(explanation)
    if facts["slices"] is None:
        return
    by_agent = facts["limitsFrom"] == "agent" and facts["limiter"] != "none"
    limit = "limits from the agent of its node" if by_agent else f"limiter {facts['limiter']}"
    yield f"policy {facts['policy']}, {limit}"
    if facts["alias"] is not None:
        yield f"alias: {facts['alias']}"
    yield from _replicas(facts)
    if asks_for_kinds(explanation.pod):
        yield f"GPUs that the pod may get: {', '.join(map(_kind, facts['kinds'])) or 'the assumed ones'}"
    memory = f", {facts['memoryMiB']} MiB" if facts["memoryMiB"] is not None else ""
    if facts["prefer"]:
        why = facts["passedOver"] or f"{facts['prefer'][0]} has room"
        yield f"prefer {', '.join(facts['prefer'])}: {why}"
    if facts["profile"] is not None:
        yield f"container {facts['container']}: MIG instance {_instance(explanation, facts)}"
        yield from _operations(explanation)
        return
    limited = _by_agent(explanation) if by_agent else ""
    share = f"{_slices(facts['slices'])} of GPU {_index(facts['index'])}{memory}{limited}"
    yield f"container {facts['container']}: {share}"
    yield from _parts(explanation, facts)
    yield from _operations(explanation)


def _by_agent(explanation: Explanation) -> str:
    """Return the agent's limit for a share of such a card: that of its slices, whatever was requested."""
    injection, policy = explanation.outcome.injection, explanation.outcome.policy
    if injection is None or policy is None or "," in injection.container or not injection.placement.gpu_mib:
        return ""
    slices = injection.slices // max(1, len(injection.placement.indices))
    mib = injection.placement.gpu_mib * slices // policy.slices_per_gpu - policy.reserve_mib
    return f", limited to {mib} MiB by the agent: the size of the slices on such a card"


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
            f"{limits[name][resource]} of {resource}"
            for resource, kind in kinds.items()
            if kind is not None and (kind.is_index or kind.is_pool)
        ]
        yield f"  {name}: {', '.join(amounts)}{f', {mib} MiB' if mib else ''}"


def _instance(explanation: Explanation, facts: dict[str, Any]) -> str:
    """Describe a pod's instance, its models, and whether it is more than twice the request."""
    injection = explanation.outcome.injection
    instance = injection.placement.instance if injection is not None else None
    products = ", ".join(instance.products) if instance is not None else ""
    more = instance is not None and instance.is_more_than_twice
    idle = ", more than twice the request" if more else ""
    return f"{facts['profile']}, {facts['memoryMiB']} MiB, {facts['slices']}/8 of {products}{idle}"


def _kind(kind: dict[str, Any]) -> str:
    nodes = "1 node" if kind["nodes"] == 1 else f"{kind['nodes']} nodes"
    return f"{kind['model'] or 'unknown model'} of {kind['memoryMiB']} MiB ({nodes})"


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


def _slices(number: int) -> str:
    return "1 slice" if number == 1 else f"{number} slices"


def _index(index: int | list[int] | None) -> str:
    if index is None:
        return "any (pooled)"
    return str(index) if isinstance(index, int) else ", ".join(map(str, index))
