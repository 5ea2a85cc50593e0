"""Problems in the queues of a ClearML agent chart, for which the webhook would deny every pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube.names import FRACTION_LABEL, GPUS_ANNOTATION, MEMORY_LABEL
from modes.amounts import choices, fits
from modes.fraction import Fraction
from modes.gpu_kinds import KindProblem, read_gpu_kinds
from modes.gpu_names import CLEARML_FRACTION_PREFIX
from modes.memory_text import memory_mib, memory_rule
from modes.mig_choice import named_problem
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.units import profile_of_resource
from policies.loading.clearml_chart import READ_ANNOTATIONS, ChartQueue, takes_decimal
from policies.model.effective import EffectivePolicy
from policies.model.gpu_count import fraction_on_gpus
from policies.model.label_advice import label_advice, memory_problem
from policies.model.pod_keys import misplaced_keys
from policies.model.problems import Problem, quoted


def queue_problems(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Problem]:
    """Yield everything for which the webhook would deny a queue's pods, under the policy that they follow."""
    label = queue.label
    at = ("labels", queue.asks_by)
    fraction = queue.fraction(policy)
    yield from _misplaced(queue)
    if label is None:
        yield from _unlabelled(queue)
    elif not isinstance(label, str):
        yield queue.problem(f'{quoted(label)[1:-1]} must be quoted: "{label}"', *at)
    elif MEMORY_LABEL in queue.labels and FRACTION_LABEL in queue.labels:
        yield queue.problem(f"and {FRACTION_LABEL} both request a share: keep one", *at)
    elif fraction is None:
        yield queue.problem(_not_allowed(queue, label, policy), *at)
    else:
        yield from _annotation_problems(queue, policy)
        for field, amounts in (("limits", queue.limits), ("requests", queue.requests)):
            for resource, amount in amounts.items():
                rule = _instance_problem(resource, amount, fraction, policy)
                if rule or (rule := _disagreement(resource, amount, fraction, label, policy)):
                    yield queue.problem(rule, "resources", field, resource)
        if policy.instance_mode is not None and len(queue.instances) > 1:
            first, second = sorted(queue.instances)[:2]
            rule = f"{first} and {second} are two MIG instances, but a share is one: keep one"
            yield queue.problem(rule, "resources", "limits", second)


def _misplaced(queue: ChartQueue) -> Iterator[Problem]:
    """Yield keys of ours that have no effect."""
    # YAML may have keys of other types.
    found = misplaced_keys([*map(str, queue.labels)], [*map(str, queue.annotations)])
    return (queue.problem(rule, f"{kind}s", key) for kind, key, rule in found)


def _annotation_problems(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Problem]:
    """Yield problems in the annotations of a queue with a valid label."""
    for name in READ_ANNOTATIONS:
        value = queue.annotations.get(name)
        if value is not None and not isinstance(value, str):
            yield queue.problem(f'{quoted(value)[1:-1]} must be quoted: "{value}"', "annotations", name)
    texts = queue.annotation_texts
    kinds = read_gpu_kinds(texts)
    if isinstance(kinds, KindProblem):
        yield queue.problem(f"{quoted(kinds.text)}: {kinds.advice}", "annotations", kinds.annotation)
    count = texts.get(GPUS_ANNOTATION)
    of_one = queue.fraction_of_one(policy)
    if count is not None and of_one is not None:
        asked = fraction_on_gpus(count, of_one, policy)
        if isinstance(asked, str):
            yield queue.problem(f"{quoted(count)} is not allowed: {asked}", "annotations", GPUS_ANNOTATION)


def _unlabelled(queue: ChartQueue) -> Iterator[Problem]:
    for resource in queue.limits:
        if resource.startswith(CLEARML_FRACTION_PREFIX):
            rule = f"needs the label {FRACTION_LABEL}: without it, Kubernetes rejects the resource"
            yield queue.problem(rule, "resources", "limits", resource)
    for resource, amount in queue.instances.items():
        if not (str(amount).isascii() and str(amount).isdigit()):
            rule = f"{quoted(amount)} is not a whole number of instances"
        elif profile_of_resource(resource) is None:
            rule = (
                f"is not a MIG profile: write it as nodes advertise it, such as {MIG_RESOURCE_PREFIX}1g.10gb"
            )
        else:
            continue
        yield queue.problem(rule, "resources", "limits", resource)
    near = [key for key in queue.labels if key.lower().replace("_", "-").endswith("injector/fraction")]
    for key in near:
        rule = f"is not the injector's label: write {FRACTION_LABEL}"
        yield queue.problem(rule, "labels", key)


def _instance_problem(resource: str, amount: Any, fraction: Fraction, policy: EffectivePolicy) -> str | None:
    """Return why the MIG instance in the limits cannot be the one that the label's share gets."""
    if policy.instance_mode is None or not resource.startswith(MIG_RESOURCE_PREFIX) or str(amount) == "0":
        return None
    if str(amount) != "1":
        return f"{resource} is requested {amount} times, but a share is one instance: write 1"
    problem = named_problem(resource, fraction)
    return f"{resource} {problem}: remove one of the two" if problem else None


def _not_allowed(queue: ChartQueue, label: str, policy: EffectivePolicy) -> str:
    if queue.asks_by == MEMORY_LABEL:
        decimal = takes_decimal(policy)
        mib = memory_mib(label, decimal=decimal)
        if mib is None:
            return f"{quoted(label)} {memory_rule(label, decimal=decimal)}"
        return f"{quoted(label)} is not allowed: {memory_problem(mib, policy)}"
    advice = label_advice(label, policy)
    if advice is None:
        return f"policy {policy.name} allows no fraction: add some to its fractions"
    return f"{quoted(label)} is not allowed by policy {policy.name}: {advice}"


def _disagreement(
    resource: str, amount: Any, fraction: Fraction, label: str, policy: EffectivePolicy
) -> str | None:
    kind = policy.mode.kinds[resource]
    if kind is None:
        return None
    if kind.is_other_system:
        hint = f", or name it in allow.resources of policy {policy.name}" if kind.can_be_allowed else ""
        return f'{resource} and the label "{label}" are two ways to share a GPU: remove one{hint}'
    if kind.is_index:
        return f'{resource} and the label "{label}" exclude each other: the index is chosen at admission'
    # Helm passes decimals of YAML on as text.
    if fits(amount if isinstance(amount, int) else str(amount), kind, fraction):
        return None
    if kind.is_clearml:
        return f'{resource}: {quoted(amount)} disagrees with label "{label}": the two must be equal'
    return f'{resource}: {amount} does not fit label "{label}": leave it out, or use {choices(fraction)}'
