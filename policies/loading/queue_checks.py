"""Labels and amounts in the queues of a ClearML agent chart, for which no pod would be admitted.

These are what a policy file may contain, and what a pod does not show. All other rules are admission's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube.names import FRACTION_LABEL, MEMORY_LABEL, PREFIX
from kube.quantity import whole
from modes.fraction import Fraction
from modes.gpu_names import CLEARML_FRACTION_PREFIX
from modes.memory_text import memory_mib, memory_rule
from modes.mig_choice import named_problem
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.units import profile_of_resource
from policies.loading.clearml_chart import ChartQueue, takes_decimal
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice, memory_problem
from policies.model.pod_keys import misplaced_keys
from policies.model.problems import Path, Problem, quoted

Mistake = tuple[Path, str]


def queue_problems(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Problem]:
    """Yield what `mistakes` finds, with its place in the file."""
    return (queue.problem(rule, *path) for path, rule in mistakes(queue, policy))


def mistakes(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Mistake]:
    """Yield what is wrong with labels and amounts, under the policy that the pods follow.

    Yields:
        The path in the template, and the rule with what to do.
    """
    label = queue.label
    at = ("labels", queue.asks_by)
    fraction = queue.fraction(policy)
    # YAML may have keys of other types.
    for kind, key, rule in misplaced_keys([*map(str, queue.labels)], [*map(str, queue.annotations)]):
        yield (f"{kind}s", key), rule
    yield from _unquoted(queue)
    if label is None:
        yield from _unlabelled(queue, policy)
    elif MEMORY_LABEL in queue.labels and FRACTION_LABEL in queue.labels:
        yield at, f"and {FRACTION_LABEL} both request a share: keep one"
    elif isinstance(label, str) and fraction is None:
        yield at, _not_allowed(queue, label, policy)
    elif fraction is not None:
        for path, resource, amount in _amounts(queue):
            wrong = _instance_problem(resource, amount, fraction, policy)
            if wrong or (wrong := _disagreement(resource, amount, fraction, label, policy)):
                yield path, wrong


def _amounts(queue: ChartQueue) -> Iterator[tuple[Path, str, Any]]:
    for field, amounts in (("limits", queue.limits), ("requests", queue.requests)):
        yield from ((("resources", field, resource), resource, each) for resource, each in amounts.items())


def _unquoted(queue: ChartQueue) -> Iterator[Mistake]:
    """Yield values of our keys that are not text."""
    for field, values in (("labels", queue.labels), ("annotations", queue.annotations)):
        for key, value in values.items():
            if key.startswith(PREFIX) and value is not None and not isinstance(value, str):
                yield (field, key), f"{quoted(value)[1:-1]} must be quoted: {quoted(value)}"


def _unlabelled(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Mistake]:
    """Yield amounts that the API server rejects if no label replaces them, and a misspelled label."""
    for path, resource, amount in _amounts(queue):
        if (rule := _rejected(resource, str(amount), policy)) is not None:
            yield path, rule
    for key in queue.labels.keys() - {FRACTION_LABEL}:
        if key.lower().replace("_", "-").endswith("injector/fraction"):
            yield ("labels", key), f"is not the injector's label: write {FRACTION_LABEL}"


def _rejected(resource: str, amount: str, policy: EffectivePolicy) -> str | None:
    if resource.startswith(CLEARML_FRACTION_PREFIX):
        return f"needs the label {FRACTION_LABEL}: without it, Kubernetes rejects the resource"
    kind = policy.mode.kinds[resource]
    if kind is None or amount == "0":
        return None
    if resource.startswith(MIG_RESOURCE_PREFIX) and profile_of_resource(resource) is None:
        return f"is not a MIG profile: write it as nodes advertise it, such as {MIG_RESOURCE_PREFIX}1g.10gb"
    if _is_whole(amount):
        return None
    ours = policy.mode.kinds[f"{CLEARML_FRACTION_PREFIX}1"]
    meant = (label for label, each in policy.fractions.items() if ours and ours.agrees(amount, each))
    advice = (f'remove it and write the label {FRACTION_LABEL}: "{label}"' for label in meant)
    rule = f"{quoted(amount)} is not a whole number, and Kubernetes rejects it"
    return f"{rule}: {next(advice, 'write a whole number')}"


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
    if kind.agrees(amount if isinstance(amount, int) else str(amount), fraction):
        return None
    if kind.is_clearml:
        return f'{resource}: {quoted(amount)} disagrees with label "{label}": the two must be equal'
    return f'{resource}: {amount} does not fit label "{label}": leave it out, or use {fraction.counts_text}'


def _is_whole(amount: str) -> bool:
    try:
        return whole(amount) >= 0
    except ValueError:
        return False
