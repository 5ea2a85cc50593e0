"""What the pods of ClearML queues get, by the values of an agent chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cli.queue_pods import all_mistakes
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.mode import Mode
from modes.units import POOL, profile_of_resource
from policies.loading.clearml_chart import Chart, ChartQueue, ChartValues
from policies.loading.policy_set import PolicySet
from policies.model.effective import EffectivePolicy
from policies.model.problems import Problem

CHARTS: Mapping[Chart, str] = {
    "open": "chart: the open ClearML agent's; agentk8sglue.basePodTemplate is the template of all its queues",
    "enterprise": "chart: the Enterprise ClearML agent's; the open one does not read agentk8sglue.queues",
}


def report_queues(
    found: ChartValues, policy_set: PolicySet, namespace: str, nodes: Sequence[NodeFact] | None
) -> tuple[list[str], list[Problem]]:
    """Return lines that say what each queue's pods would get, and the mistakes.

    Args:
        found: the values of a ClearML agent chart.
        policy_set: the policies.
        namespace: namespace of the tasks.
        nodes: to count how many pods of a queue fit; None without them.
    """
    lines = [CHARTS[found.chart]] if found.chart is not None else []
    problems = list(found.problems)
    for queue in found.queues:
        policy = policy_set.resolve(namespace, queue.name, None)
        mistakes = [queue.problem(rule, *path) for path, rule in all_mistakes(queue, policy)]
        problems += mistakes
        lines += _report(queue, policy, nodes, is_wrong=bool(mistakes))
    return lines, sorted(set(problems))


def _report(
    queue: ChartQueue, policy: EffectivePolicy, nodes: Sequence[NodeFact] | None, *, is_wrong: bool
) -> list[str]:
    head = f"queue {queue.name} ({queue.source.line()})"
    fraction = queue.fraction(policy)
    if nodes is not None:
        nodes = [node for node in nodes if _is_taken(node, queue.kinds)]
    if is_wrong:
        return [f"{head}: its pods will be denied, see below"]
    if fraction is None:
        return _report_unlabelled(queue, head, nodes)
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
        limits = ", ".join(f"{name}: {amount}" for name, amount in replaced.items())
        lines.append(f"  limits that will be replaced: {limits}")
    if queue.instances:
        lines.append(f"  taken as asked for: {_named(queue)}")
        return [*lines, _capacity(queue, partial(_fit_of_named, queue, policy, fraction), nodes)]
    slices = (fraction, policy.mode) if policy.instance_mode is None and not fraction.mib else None
    return [*lines, _capacity(queue, partial(_fit_of_both, policy, fraction), nodes, slices)]


def _report_unlabelled(queue: ChartQueue, head: str, nodes: Sequence[NodeFact] | None) -> list[str]:
    said = f"{head}: no fraction label, its pods are not changed"
    if not queue.instances:
        return [said]
    capacity = _capacity(queue, partial(_as_named, queue), nodes)
    return [f"{said}; counted are {_named(queue)}", capacity]


def _is_taken(node: NodeFact, kinds: GpuKinds) -> bool:
    product = node.product
    return kinds.takes_model(product) and (node.gpu_mib or 0) >= kinds.min_mib


def _kinds(kinds: GpuKinds) -> str:
    models = f"GPU models {', '.join(kinds.models)}" if kinds.models else "any GPU model"
    return f"{models}, of at least {kinds.min_mib} MiB" if kinds.min_mib else f"{models} alone"


def _named(queue: ChartQueue) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in queue.instances.items())


def _as_named(queue: ChartQueue, node: NodeFact) -> int:
    """Return how many pods of a queue an empty node holds, by the instances that they name."""
    counts = node.offered()
    named = [
        (counts.get(profile_of_resource(name) or POOL, 0), int(each))
        for name, each in queue.instances.items()
    ]
    return min([count // each for count, each in named if each], default=0)


def _fit_of_named(queue: ChartQueue, policy: EffectivePolicy, fraction: Fraction, node: NodeFact) -> int:
    """Return the same for pods with a label too: 0 if the instance does not hold the requested share."""
    mode = policy.instance_mode
    if mode is None:
        return 0
    offer = node.product, node.mig_card, mode.resource_units(node)
    holds = all(mode.instances(fraction, [offer], name) for name in queue.instances)
    return _as_named(queue, node) if holds else 0


def _fit_of_both(policy: EffectivePolicy, fraction: Fraction, node: NodeFact) -> int:
    """Return how many pods an empty node holds, in instances and in slices as the policy allows them."""
    fit = policy.instance_mode.fit(node, fraction) if policy.instance_mode is not None else 0
    on_card = fraction.on_card(node.gpu_mib or 0)
    if policy.mode.gives_instances or on_card is None:
        return fit
    return fit + policy.mode.fit(node, on_card)


def _capacity(
    queue: ChartQueue,
    fit: Callable[[NodeFact], int],
    nodes: Sequence[NodeFact] | None,
    slices: tuple[Fraction, Mode] | None = None,
) -> str:
    """Return how many pods a queue has, and how many fit; in slices of a fraction and mode, if given."""
    text = "no maxPods" if queue.max_pods is None else f"maxPods {queue.max_pods}"
    if slices is not None and queue.max_pods is not None:
        text += f" x {slices[0].slices} = {queue.max_pods * slices[0].slices} slices"
    if nodes is None:
        return f"  {text}"
    held = f" of {sum(map(slices[1].slices, nodes))} in the inventory;" if slices else "; of the inventory:"
    found = sum(map(fit, nodes))
    short = "; the rest will wait" if queue.max_pods is not None and queue.max_pods > found else ""
    return f"  {text}{held} {found} such pods fit into it when it is empty{short}"


def _limit(fraction: Fraction, policy: EffectivePolicy) -> str:
    if not policy.mode.needs_limiter:
        return "no limiter, as MIG instances are limited by the hardware"
    if fraction.is_whole:
        return "no limiter, as for all whole GPUs"
    if policy.demands.prefer:
        return f"{' or '.join(policy.demands.prefer)} by room, limiter {policy.limiter.name} only for slices"
    if policy.writes_limits:
        return f"limiter {policy.limiter.name}"
    to = ", to the slices and not to the MiB" if fraction.is_of_memory else ""
    return f"limits from the agent of its node{to}"
