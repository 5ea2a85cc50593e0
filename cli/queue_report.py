"""What the pods of ClearML queues get, by the values of an agent chart."""

from __future__ import annotations

from collections.abc import Mapping

from cli.queue_pods import all_mistakes
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from policies.loading.clearml_chart import Chart, ChartQueue, ChartValues
from policies.loading.policy_set import PolicySet
from policies.model.effective import EffectivePolicy
from policies.model.problems import Problem

CHARTS: Mapping[Chart, str] = {
    "features": "chart: the open ClearML agent's, 3.0.0 to 4.0.10; no other reads enterpriseFeatures.queues",
    "open": "chart: the open ClearML agent's; agentk8sglue.basePodTemplate is the template of all its queues",
    "enterprise": "chart: the Enterprise ClearML agent's; the open one does not read agentk8sglue.queues",
}


def report_queues(
    found: ChartValues, policy_set: PolicySet, namespace: str
) -> tuple[list[str], list[Problem]]:
    """Return lines that say what each queue's pods would get, and the mistakes.

    Args:
        found: the values of a ClearML agent chart.
        policy_set: the policies.
        namespace: namespace of the tasks.
    """
    lines = [CHARTS[found.chart]] if found.chart is not None else []
    problems = list(found.problems)
    for queue in found.queues:
        policy = policy_set.resolve(namespace, queue.name, None)
        mistakes = [queue.problem(rule, *path) for path, rule in all_mistakes(queue, policy)]
        problems += mistakes
        lines += _report(queue, policy, is_wrong=bool(mistakes))
    return lines, sorted(set(problems))


def _report(queue: ChartQueue, policy: EffectivePolicy, *, is_wrong: bool) -> list[str]:
    head = f"queue {queue.name} ({queue.source.line()})"
    fraction = queue.fraction(policy)
    if is_wrong:
        return [f"{head}: its pods will be denied, see below"]
    if fraction is None:
        return [f"{head}: no fraction label, its pods are not changed"]
    if not policy.gives_share:
        return [f"{head}: share: none, its pods run without a GPU: label and GPU limits are removed"]
    under = f"policy {policy.name}" + (f", queue entry {policy.queue}" if policy.queue else "")
    lines = [
        f'{head}: label "{queue.label}" is {policy.mode.share_text(fraction)}',
        f"  {under}, {_limit(fraction, policy)}",
    ]
    if queue.kinds != EVERY_KIND:
        lines.append(f"  {_kinds(queue.kinds)}")
    if replaced := queue.replaced(policy):
        lines.append(f"  limits that will be replaced: {_amounts(replaced)}")
    if queue.instances:
        lines.append(f"  taken as asked for: {_amounts(queue.instances)}")
    return lines


def _kinds(kinds: GpuKinds) -> str:
    models = f"GPU models {', '.join(kinds.models)}" if kinds.models else "any GPU model"
    return f"{models}, of at least {kinds.min_mib} MiB" if kinds.min_mib else f"only {models}"


def _amounts(named: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in named.items())


def _limit(fraction: Fraction, policy: EffectivePolicy) -> str:
    if not policy.mode.needs_limiter:
        return "no limiter, as MIG instances are limited by the hardware"
    if fraction.is_whole:
        return "no limiter, as for all whole GPUs"
    if policy.demands.prefer:
        return f"{' or '.join(policy.demands.prefer)} by room, limiter {policy.limiter.name}, none for MIG"
    if policy.writes_limits:
        return f"limiter {policy.limiter.name}"
    to = ", to the slices and not to the MiB" if fraction.is_of_memory else ""
    return f"limits from the agent of its node{to}"
