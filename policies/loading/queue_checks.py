"""Labels and amounts in the queues of a ClearML agent chart, for which no pod would be admitted.

These are what a policy file may contain, and what a pod does not show. All other rules are admission's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kube.names import FRACTION_LABEL, MEMORY_LABEL, PREFIX
from kube.quantity import whole
from modes.gpu_names import CLEARML_FRACTION_PREFIX
from modes.memory_text import memory_mib, memory_rule
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
    """Yield what is wrong with labels, annotations and amounts, under the policy that the pods follow.

    Yields:
        The path in the template, and the rule with what to do.
    """
    at = ("labels", queue.asks_by)
    # YAML may have keys of other types.
    for kind, key, rule in misplaced_keys([*map(str, queue.labels)], [*map(str, queue.annotations)]):
        yield (f"{kind}s", key), rule
    yield from _unquoted(queue)
    if MEMORY_LABEL in queue.labels and FRACTION_LABEL in queue.labels:
        yield at, f"and {FRACTION_LABEL} both request a share: keep one"
    elif isinstance(queue.label, str) and queue.fraction(policy) is None:
        yield at, _not_allowed(queue, queue.label, policy)
    if queue.label is None:
        yield from _unlabelled(queue, policy)


def _unlabelled(queue: ChartQueue, policy: EffectivePolicy) -> Iterator[Mistake]:
    """Yield amounts that the API server rejects if no label replaces them, and a misspelled label."""
    for resource, amount in queue.limits.items():
        if (rule := _rejected(resource, str(amount), policy)) is not None:
            yield ("resources", "limits", resource), rule
    for key in queue.labels.keys() - {FRACTION_LABEL}:
        if key.lower().replace("_", "-").endswith("injector/fraction"):
            yield ("labels", key), f"is not the injector's label: write {FRACTION_LABEL}"


def _rejected(resource: str, amount: str, policy: EffectivePolicy) -> str | None:
    if resource.startswith(CLEARML_FRACTION_PREFIX):
        return f"needs the label {FRACTION_LABEL}: without it, Kubernetes rejects the resource"
    if policy.mode.kinds[resource] is None:
        return None
    with suppress(ValueError):
        whole(amount)
        return None
    ours = policy.mode.kinds[f"{CLEARML_FRACTION_PREFIX}1"]
    meant = (label for label, each in policy.fractions.items() if ours and ours.agrees(amount, each))
    advice = (f'remove it and write the label {FRACTION_LABEL}: "{label}"' for label in meant)
    rule = f"{quoted(amount)} is not a whole number, and Kubernetes rejects it"
    return f"{rule}: {next(advice, 'write a whole number')}"


def _unquoted(queue: ChartQueue) -> Iterator[Mistake]:
    """Yield values of our keys that are not text."""
    for field, values in (("labels", queue.labels), ("annotations", queue.annotations)):
        for key, value in values.items():
            if key.startswith(PREFIX) and value is not None and not isinstance(value, str):
                yield (field, key), f"{quoted(value)[1:-1]} must be quoted: {quoted(value)}"


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
