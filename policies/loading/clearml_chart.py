"""Queue values of the ClearML agent charts: what the pods of each queue request, and misplaced keys.

There are two charts with two shapes under `agentk8sglue`. The open chart has one template for all its queues,
`queue: a,b`: `basePodTemplate`. The Enterprise chart adds a template per queue:
`queues.<name>.templateOverrides`, with `.queueSettings.maxPods`. The open chart's versions 3.0.0 to 4.0.10
read such queues under `enterpriseFeatures`. A Queues file may contain both.

Labels and amounts are checked that a pod does not show; all other rules are admission's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from kube.names import ASKING_LABELS, FRACTION_LABEL, GPUS_ANNOTATION, MEMORY_LABEL, PREFIX
from kube.quantity import whole
from ledger.queue_names import sanitised
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds, KindProblem, read_gpu_kinds
from modes.gpu_names import CLEARML_FRACTION_PREFIX
from modes.memory_text import memory_mib, memory_rule
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from policies.loading.sources import Source
from policies.loading.strict_yaml import Document
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import fraction_on_gpus, label_advice, memory_problem
from policies.model.pod_keys import misplaced_keys
from policies.model.problems import Path, Problem, did_you_mean, quoted

ROOT = "agentk8sglue"
BASE = "basePodTemplate"
TEMPLATE = "templateOverrides"
FEATURES = "enterpriseFeatures"

Chart = Literal["open", "enterprise", "features"]
Mistake = tuple[Path, str]

_OF_A_QUEUE = ("templateOverrides", "queueSettings")
_OF_A_TEMPLATE = ("labels", "annotations", "resources")
_HINTED = ("labels", "resources")
"""Without annotations: `tolerations`, which templates have, would be reported as a misspelling of it."""


@dataclass(frozen=True, slots=True)
class ChartQueue:
    """One queue as in the values; its template has not been checked."""

    name: str
    source: Source
    templates: Sequence[Source]
    """Its own template, and the template of all queues."""
    template: Mapping[str, Any]
    """Both: of each key the first value that is not empty, as in the charts."""

    @property
    def labels(self) -> Mapping[str, Any]:
        """The labels of its pods."""
        return _mapping(self.template, "labels")

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of its pods."""
        return _mapping(self.template, "annotations")

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits of its pods' containers."""
        return _mapping(_mapping(self.template, "resources"), "limits")

    @property
    def asks_by(self) -> str:
        """The label with which its pods request a share."""
        return MEMORY_LABEL if MEMORY_LABEL in self.labels else FRACTION_LABEL

    @property
    def label(self) -> Any:
        """Value of that label; None without one."""
        return self.labels.get(self.asks_by)

    @property
    def instances(self) -> Mapping[str, Any]:
        """Number of MIG instances that its pods request, by resource name, without zeros."""
        return {
            name: each
            for name, each in self.limits.items()
            if name.startswith(MIG_RESOURCE_PREFIX) and str(each) != "0"
        }

    @property
    def kinds(self) -> GpuKinds:
        """The kinds of GPU that its pods accept; every kind if the annotations cannot be read."""
        texts = {name: value for name, value in self.annotations.items() if isinstance(value, str)}
        found = read_gpu_kinds(texts)
        return EVERY_KIND if isinstance(found, KindProblem) else found

    def fraction(self, policy: EffectivePolicy) -> Fraction | None:
        """Return the request of label and annotations under a policy; None if the label is not allowed."""
        of_one, count = self._fraction_of_one(policy), self.annotations.get(GPUS_ANNOTATION)
        if of_one is None or not isinstance(count, str):
            return of_one
        asked = fraction_on_gpus(count, of_one, policy)
        return asked if isinstance(asked, Fraction) else of_one

    def _fraction_of_one(self, policy: EffectivePolicy) -> Fraction | None:
        if not isinstance(self.label, str):
            return None
        if self.asks_by == FRACTION_LABEL:
            return policy.fractions.get(self.label)
        mib = memory_mib(self.label, decimal=takes_decimal(policy))
        if mib is None or memory_problem(mib, policy) is not None:
            return None
        return Fraction.of_memory(mib + policy.reserve_mib, policy.slices_per_gpu)

    def problem(self, rule: str, *path: str | int) -> Problem:
        """Return a problem at a value, in the template that has it."""
        found = (template for template in self.templates if template.line(*path) is not None)
        return next(found, self.templates[0]).problem(rule, *path)

    def replaced(self, policy: EffectivePolicy) -> Mapping[str, Any]:
        """Return the limits that the webhook removes under a policy."""
        kinds = {name: policy.mode.kinds[name] for name in self.limits}
        return {
            name: self.limits[name] for name, kind in kinds.items() if kind is not None and kind.is_replaced
        }


@dataclass(frozen=True, slots=True)
class ChartValues:
    """A values file of one of the two charts."""

    chart: Chart | None
    """None if the values do not show which chart they are for."""
    queues: Sequence[ChartQueue]
    problems: Sequence[Problem]


def read_chart_values(file: str, documents: Iterable[Document]) -> ChartValues:
    """Read the documents of a values file of a ClearML agent chart."""
    charts: list[Chart] = []
    queues: list[ChartQueue] = []
    problems: list[Problem] = []
    for document in documents:
        queues += _queues(document, charts, problems)
    if not charts and not problems:
        rule = f"has neither {ROOT}.queues nor {ROOT}.{BASE}: is it a values file of a ClearML agent chart?"
        problems.append(Problem(file, 0, "", rule))
    problems += same_label_problems((queue.name, queue.source) for queue in queues)
    return ChartValues(next(iter(charts), None), queues, problems)


def own_template(source: Source) -> Source:
    """Return the place of a queue's own template."""
    return Source(source.document, (*source.path, TEMPLATE))


def chart_queue(name: str, source: Source, templates: Sequence[Source]) -> ChartQueue:
    """Read a queue whose templates have these places, the first before the others."""
    given = [(key, value) for each in reversed(templates) for key, value in _at(each).items() if value]
    return ChartQueue(name, source, templates, dict(given))


def _queues(document: Document, charts: list[Chart], problems: list[Problem]) -> Iterator[ChartQueue]:
    root = document.data if isinstance(document.data, dict) else {}
    agent, features = _mapping(root, ROOT), _mapping(root, FEATURES)
    problems += _misplaced(Source(document), root, {ROOT, FEATURES})
    if features.get("queues") and features.get("enabled") is not True:
        rule = f"the chart reads queues here only with {FEATURES}.enabled: true"
        problems.append(Source(document, (FEATURES,)).problem(rule, "queues"))
    source = Source(document, (ROOT,))
    problems += _misplaced(source, agent, {"queues"})
    for label in ASKING_LABELS:
        if label in _mapping(agent, "labels"):
            rule = f"labels the agent's own pod, not its tasks: move it under {BASE}.labels"
            problems.append(source.problem(rule, "labels", label))
    base = Source(document, (ROOT, BASE)) if isinstance(agent.get(BASE), dict) else None
    if base is not None:
        problems += _template_shape_problems(base, agent[BASE])
    if "queues" in agent:
        charts.append("enterprise")
        yield from _enterprise_queues(Source(document, (ROOT, "queues")), agent["queues"], base, problems)
    elif features.get("queues") and features.get("enabled") is True:
        charts.append("features")
        at = Source(document, (FEATURES, "queues"))
        yield from _enterprise_queues(at, features["queues"], base, problems)
    elif base is not None:
        charts.append("open")
        names = [name.strip() for name in str(agent.get("queue", "default")).split(",")]
        yield from (chart_queue(name, base, [base]) for name in names if name)


def _enterprise_queues(
    at: Source, queues: Any, base: Source | None, problems: list[Problem]
) -> Iterator[ChartQueue]:
    if not isinstance(queues, dict):
        problems.append(at.problem("must be a mapping of queue name to its values"))
        return
    for name, entry in queues.items():
        source = Source(at.document, (*at.path, name))
        if entry is not None and not isinstance(entry, dict):
            problems.append(source.problem("must be a mapping with templateOverrides and queueSettings"))
            continue
        problems += _shape_problems(source, entry or {})
        yield chart_queue(name, source, [own_template(source), *([base] if base is not None else ())])


def _misplaced(source: Source, values: Mapping[str, Any], known: set[str]) -> Iterator[Problem]:
    """Yield queues, or the mapping of queues, that are one level too high."""
    for key, value in values.items():
        if key in known or not isinstance(value, dict):
            continue
        if key == "queues" and any(map(_is_queue, value.values())):
            yield source.problem(f"queues belongs under {ROOT}: the chart does not read it here", key)
        elif _is_queue(value):
            yield source.problem(
                f"queue {quoted(key)} is one level too high: move it under {ROOT}.queues", key
            )


def _is_queue(value: Any) -> bool:
    return isinstance(value, dict) and any(key in value for key in _OF_A_QUEUE)


def _shape_problems(source: Source, entry: Mapping[str, Any]) -> Iterator[Problem]:
    for key in entry:
        if key in _OF_A_TEMPLATE:
            yield source.problem(f"{key} is one level too high: move it under templateOverrides", key)
        elif key not in _OF_A_QUEUE and (hint := did_you_mean(key, _OF_A_QUEUE)):
            yield source.problem(f"unknown key{hint}", key)
    yield from _template_shape_problems(own_template(source), _mapping(entry, TEMPLATE))
    max_pods = _mapping(entry, "queueSettings").get("maxPods")
    if max_pods is not None and (not isinstance(max_pods, int) or isinstance(max_pods, bool) or max_pods < 1):
        rule = f"{quoted(max_pods)} must be a whole number from 1 up"
        yield source.problem(rule, "queueSettings", "maxPods")


def _template_shape_problems(source: Source, template: Mapping[str, Any]) -> Iterator[Problem]:
    for key in template:
        if key not in _OF_A_TEMPLATE and (hint := did_you_mean(key, _HINTED)):
            yield source.problem(f"unknown key{hint}", key)


def same_label_problems(queues: Iterable[tuple[str, Source]]) -> Iterator[Problem]:
    """Yield each queue, by its name and place, whose pods have the label of another one's."""
    labels: dict[str, str] = {}
    for name, source in queues:
        label = sanitised(name)
        if label in labels:
            rule = f'becomes the label "{label}", like queue "{labels[label]}": pods of both look the same'
            yield source.problem(rule)
        labels.setdefault(label, name)


def takes_decimal(policy: EffectivePolicy) -> bool:
    """Whether a label may state an amount of memory as a decimal one, such as 4G."""
    return policy.memory is not None and policy.memory.decimal


def _at(source: Source) -> Mapping[str, Any]:
    """Return the mapping at a source's path."""
    found: Any = source.document.data
    for key in source.path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, dict) else {}


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
