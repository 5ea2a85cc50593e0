"""Queue values of the ClearML agent chart: what is read, and what is wrong with it, line by line."""

import pytest

from policies.chart_queues import queue_problems, read_chart_queues
from policies.problems import PolicyError
from tests.policies.support import policy_set

POLICY = policy_set().resolve("default", None, None)

DOCUMENTED = """\
agentk8sglue:
  createQueues: true
  queues:
    default0500:
      templateOverrides:
        labels:
          required-resources: "0.5"
          clearml-injector/fraction: "0.500"
        resources:
          limits:
            nvidia.com/gpu: 1
            clear.ml/fraction-1: "0.5"
      queueSettings:
        maxPods: 10
    cpu-only: {}
"""


def read(text):
    return read_chart_queues("values.yaml", text.encode())


def problems(text):
    queues, found = read(text)
    return [
        str(problem) for problem in [*found, *(p for queue in queues for p in queue_problems(queue, POLICY))]
    ]


def queue(*lines):
    """Values of one queue, its template from line 4 on."""
    return "agentk8sglue:\n  queues:\n    q:\n" + "".join(f"      {line}\n" for line in lines)


def template(label, limits="{}"):
    labels = "{}" if label is None else f"{{clearml-injector/fraction: {label}}}"
    return queue("templateOverrides:", f"  labels: {labels}", f"  resources: {{limits: {limits}}}")


def test_the_documented_example_is_read_as_it_stands():
    (half, cpu), found = read(DOCUMENTED)
    assert found == []
    assert (half.name, half.label, half.max_pods) == ("default0500", "0.500", 10)
    assert half.replaced == {"nvidia.com/gpu": 1, "clear.ml/fraction-1": "0.5"}
    assert half.fraction(POLICY).slices == 4
    assert half.source.line() == "values.yaml:4"
    assert (cpu.label, cpu.max_pods) == (None, None)
    assert problems(DOCUMENTED) == []


@pytest.mark.parametrize(
    "limits", ["{}", "{nvidia.com/gpu: 1}", "{nvidia.com/gpu: '4'}", "{nvidia.com/gpu.shared: 4}"]
)
@pytest.mark.parametrize("fraction", [None, '"0.5"', "0.5", "500m"])
def test_amounts_that_mean_the_label_are_fine(limits, fraction):
    if fraction is not None:
        limits = limits.replace("}", f", clear.ml/fraction-1: {fraction}}}").replace("{,", "{")
    assert problems(template('"0.500"', limits)) == []


LABEL = 'agentk8sglue.queues.q.templateOverrides.labels."clearml-injector/fraction"'
LIMITS = "agentk8sglue.queues.q.templateOverrides.resources.limits"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            template('"0.5"'),
            (
                f'values.yaml:5: {LABEL}: "0.5" is not allowed by policy default: use 0.125,'
                " 0.250, 0.375, 0.500, 0.625,"
                ' 0.750, 0.875 (did you mean "0.500"?)'
            ),
        ),
        (template("0.500"), f'values.yaml:5: {LABEL}: 0.500 must be quoted: "0.500"'),
        (
            template('"0.500"', '{clear.ml/fraction-1: "0.25"}'),
            (
                f'values.yaml:6: {LIMITS}."clear.ml/fraction-1": clear.ml/fraction-1: "0.25"'
                ' disagrees with label "0.500":'
                " the two must be equal"
            ),
        ),
        (
            template('"0.250"', "{nvidia.com/gpu: 4}"),
            (
                f'values.yaml:6: {LIMITS}."nvidia.com/gpu": nvidia.com/gpu: 4 does not fit'
                ' label "0.250": leave it out, or'
                " use 1 or 2"
            ),
        ),
        (
            template('"0.250"', "{nvidia.com/gpu-1: 2}"),
            (
                f'values.yaml:6: {LIMITS}."nvidia.com/gpu-1": nvidia.com/gpu-1 and the label'
                ' "0.250" exclude each other:'
                " the index is chosen at admission"
            ),
        ),
        (
            template(None, '{clear.ml/fraction-1: "0.25"}'),
            (
                f'values.yaml:6: {LIMITS}."clear.ml/fraction-1": needs the label'
                " clearml-injector/fraction beside it:"
                " Kubernetes refuses the resource as it is"
            ),
        ),
        (
            queue("templateOverrides:", '  labels: {clearml_injector/fraction: "0.250"}'),
            (
                "values.yaml:5:"
                ' agentk8sglue.queues.q.templateOverrides.labels."clearml_injector/fraction": is not the'
                " label that is read: write clearml-injector/fraction"
            ),
        ),
        (
            queue("templateOverride: {}"),
            (
                "values.yaml:4: agentk8sglue.queues.q.templateOverride: unknown key (did you mean"
                ' "templateOverrides"?)'
            ),
        ),
        (
            queue("labels: {}"),
            (
                "values.yaml:4: agentk8sglue.queues.q.labels: labels stands one level too high: move it under"
                " templateOverrides"
            ),
        ),
        (
            queue("templateOverrides: {label: {}}"),
            (
                "values.yaml:4: agentk8sglue.queues.q.templateOverrides.label: unknown key (did you"
                ' mean "labels"?)'
            ),
        ),
        (
            queue("queueSettings: {maxPods: '10'}"),
            (
                'values.yaml:4: agentk8sglue.queues.q.queueSettings.maxPods: "10" must be a whole'
                " number from 1 up"
            ),
        ),
        (
            "agentk8sglue:\n  queues: {}\n  gpu-half:\n    templateOverrides: {}\n",
            (
                'values.yaml:3: agentk8sglue.gpu-half: queue "gpu-half" stands one level too'
                " high: move it under"
                " agentk8sglue.queues"
            ),
        ),
        (
            "gpu-half:\n  templateOverrides: {}\n",
            (
                'values.yaml:1: gpu-half: queue "gpu-half" stands one level too high: move it under'
                " agentk8sglue.queues"
            ),
        ),
        (
            "queues:\n  gpu-half:\n    templateOverrides: {}\n",
            "values.yaml:1: queues: queues belongs under agentk8sglue: the chart does not read it here",
        ),
        (
            "agentk8sglue:\n  queues:\n    a.b: {}\n    a_b: {}\n",
            (
                'values.yaml:4: agentk8sglue.queues.a_b: becomes the label "a-b", like queue'
                ' "a.b": pods of both look the'
                " same"
            ),
        ),
        (
            "agentk8sglue:\n  queues: [a]\n",
            "values.yaml:2: agentk8sglue.queues: must be a mapping of queue name to its values",
        ),
        (
            "agentk8sglue:\n  queues:\n    a: b\n",
            (
                "values.yaml:3: agentk8sglue.queues.a: must be a mapping with templateOverrides and"
                " queueSettings"
            ),
        ),
        (
            "other: 1\n",
            "values.yaml: has no agentk8sglue.queues: is it a values file of the ClearML agent chart?",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(text, expected):
    assert problems(text) == [expected]


def test_values_that_are_no_yaml_say_where():
    with pytest.raises(PolicyError, match=r"^values\.yaml:2: is not YAML: .* here is a tab$"):
        read("agentk8sglue:\n\tqueues: {}\n")


def test_a_duplicate_queue_is_a_mistake_not_the_last_one_wins():
    with pytest.raises(PolicyError, match='key "a" stands twice'):
        read("agentk8sglue:\n  queues:\n    a: {}\n    a: {}\n")
