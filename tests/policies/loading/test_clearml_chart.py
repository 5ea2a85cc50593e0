"""Queue values of the ClearML agent chart: what is read, and what is wrong with it, line by line."""

import pytest

from policies.loading.clearml_chart import read_chart_values
from policies.loading.queue_checks import queue_problems
from policies.loading.strict_yaml import read_documents
from policies.model.problems import PolicyError
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
    return read_chart_values("values.yaml", read_documents("values.yaml", text.encode()))


def problems(text):
    found = read(text)
    denied = (problem for queue in found.queues for problem in queue_problems(queue, POLICY))
    return [str(problem) for problem in [*found.problems, *denied]]


def queue(*lines):
    """Values of one queue, its template from line 4 on."""
    return "agentk8sglue:\n  queues:\n    q:\n" + "".join(f"      {line}\n" for line in lines)


def template(label, limits="{}"):
    labels = "{}" if label is None else f"{{clearml-injector/fraction: {label}}}"
    return queue("templateOverrides:", f"  labels: {labels}", f"  resources: {{limits: {limits}}}")


def test_the_documented_example_is_read_as_it_stands():
    found = read(DOCUMENTED)
    half, cpu = found.queues
    assert (found.chart, found.problems) == ("enterprise", [])
    assert (half.name, half.label, half.max_pods) == ("default0500", "0.500", 10)
    assert half.replaced(POLICY) == {"nvidia.com/gpu": 1, "clear.ml/fraction-1": "0.5"}
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


def annotated(annotations, limits="{}"):
    """Values of one queue of half GPUs, with annotations in its template."""
    labels = '{clearml-injector/fraction: "0.500"}'
    lines = [f"labels: {labels}", f"annotations: {annotations}", f"resources: {{limits: {limits}}}"]
    return queue("templateOverrides:", *[f"  {line}" for line in lines])


def test_annotations_say_of_how_many_gpus_and_of_which_kinds():
    text = annotated(
        '{clearml-injector/gpus: "2", clearml-injector/gpu-model: "A100*", other/one: 1}',
        "{nvidia.com/gpu: 2}",
    )
    (pair,) = read(text).queues
    assert (pair.fraction(POLICY).gpus, pair.fraction(POLICY).slices, pair.kinds.models) == (2, 8, ("A100*",))
    assert problems(text) == []


LABEL = 'agentk8sglue.queues.q.templateOverrides.labels."clearml-injector/fraction"'
ANNOTATIONS = 'agentk8sglue.queues.q.templateOverrides.annotations."clearml-injector'
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
                " clearml-injector/fraction:"
                " without it, Kubernetes rejects the resource"
            ),
        ),
        (
            queue("templateOverrides:", '  labels: {clearml_injector/fraction: "0.250"}'),
            (
                "values.yaml:5:"
                ' agentk8sglue.queues.q.templateOverrides.labels."clearml_injector/fraction": is not the'
                " injector's label: write clearml-injector/fraction"
            ),
        ),
        (
            annotated("{clearml-injector/gpus: 2}"),
            f'values.yaml:6: {ANNOTATIONS}/gpus": 2 must be quoted: "2"',
        ),
        (
            template(None, "{nvidia.com/gpu: 0.5}"),
            (
                f'values.yaml:6: {LIMITS}."nvidia.com/gpu": "0.5" is not a whole number, and Kubernetes'
                ' rejects it: remove it and write the label clearml-injector/fraction: "0.500"'
            ),
        ),
        (
            template(None, "{nvidia.com/gpu: 1500m}"),
            (
                f'values.yaml:6: {LIMITS}."nvidia.com/gpu": "1500m" is not a whole number, and Kubernetes'
                " rejects it: write a whole number"
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
                "values.yaml:4: agentk8sglue.queues.q.labels: labels is one level too high: move it under"
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
                'values.yaml:3: agentk8sglue.gpu-half: queue "gpu-half" is one level too'
                " high: move it under"
                " agentk8sglue.queues"
            ),
        ),
        (
            "gpu-half:\n  templateOverrides: {}\n",
            (
                'values.yaml:1: gpu-half: queue "gpu-half" is one level too high: move it under'
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
            (
                "values.yaml: has neither agentk8sglue.queues nor agentk8sglue.basePodTemplate: is it a"
                " values file of a ClearML agent chart?"
            ),
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(text, expected):
    assert problems(text) == [expected]


def test_values_that_are_no_yaml_say_where():
    with pytest.raises(PolicyError, match=r"^values\.yaml:2: is not YAML: .* not tabs$"):
        read("agentk8sglue:\n\tqueues: {}\n")


def test_a_duplicate_queue_is_a_mistake_not_the_last_one_wins():
    with pytest.raises(PolicyError, match='key "a" is duplicate'):
        read("agentk8sglue:\n  queues:\n    a: {}\n    a: {}\n")


OPEN = """\
agentk8sglue:
  queue: default, gpu_half
  basePodTemplate:
    labels:
      clearml-injector/fraction: "0.500"
    resources:
      limits: {nvidia.com/gpu: 1}
    tolerations: [{key: nvidia.com/gpu, operator: Exists}]
    volumes: []
"""


def test_the_open_chart_has_one_template_for_all_its_queues():
    found = read(OPEN)
    assert (found.chart, found.problems) == ("open", [])
    assert [(queue.name, queue.label, queue.max_pods) for queue in found.queues] == [
        ("default", "0.500", None),
        ("gpu_half", "0.500", None),
    ]
    assert found.queues[0].replaced(POLICY) == {"nvidia.com/gpu": 1}
    assert found.queues[0].source.line() == "values.yaml:3"
    assert [queue.name for queue in read(OPEN.replace("  queue: default, gpu_half\n", "")).queues] == [
        "default"
    ]


BASE = "values.yaml:5: agentk8sglue.basePodTemplate.labels"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            OPEN.replace('"0.500"', "0.500"),
            [f'{BASE}."clearml-injector/fraction": 0.500 must be quoted: "0.500"'] * 2,
        ),
        (
            "agentk8sglue:\n  labels: {clearml-injector/fraction: '0.500'}\n  basePodTemplate: {}\n",
            [
                (
                    'values.yaml:2: agentk8sglue.labels."clearml-injector/fraction": labels the agent\'s own'
                    " pod, not its tasks: move it under basePodTemplate.labels"
                )
            ],
        ),
        (
            "agentk8sglue:\n  basePodTemplate: {label: {}}\n",
            ['values.yaml:2: agentk8sglue.basePodTemplate.label: unknown key (did you mean "labels"?)'],
        ),
    ],
)
def test_a_mistake_in_the_template_of_all_queues_is_reported_with_its_line(values, expected):
    assert problems(values) == expected


def test_a_queue_of_the_enterprise_chart_has_what_its_own_template_leaves_of_the_common_one():
    both = (
        OPEN
        + "  queues:\n    half: {}\n    quarter:\n      templateOverrides:\n"
        + ("        labels: {clearml-injector/fraction: '0.250'}\n")
    )
    found = read(both)
    assert found.chart == "enterprise"
    assert [(queue.name, queue.label, queue.replaced(POLICY)) for queue in found.queues] == [
        ("half", "0.500", {"nvidia.com/gpu": 1}),
        ("quarter", "0.250", {"nvidia.com/gpu": 1}),
    ]
    # A key of the queue's own template replaces the common one, as the charts do it.
    assert read(both.replace("{clearml-injector/fraction: '0.250'}", "{team: a}")).queues[1].label is None
    # Each value is reported at its own place.
    wrong = both.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 4")
    assert problems(wrong) == [
        (
            'values.yaml:7: agentk8sglue.basePodTemplate.resources.limits."nvidia.com/gpu": nvidia.com/gpu: 4'
            ' does not fit label "0.250": leave it out, or use 1 or 2'
        )
    ]


FEATURES = """\
enterpriseFeatures:
  enabled: true
  queues:
    half:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.5"}
    quarter: {templateOverrides: {}}
agentk8sglue:
  queue: default
  basePodTemplate:
    labels: {clearml-injector/fraction: "0.250"}
"""


def test_queues_of_the_charts_enterprise_features_are_read_where_these_are_enabled():
    found = read(FEATURES)
    assert (found.chart, [each.name for each in found.queues]) == ("features", ["half", "quarter"])
    at = 'enterpriseFeatures.queues.half.templateOverrides.labels."clearml-injector/fraction"'
    [problem] = problems(FEATURES)
    assert problem.startswith(f'values.yaml:6: {at}: "0.5" is not allowed')
    off = FEATURES.replace("true", "false")
    assert (read(off).chart, [each.name for each in read(off).queues]) == ("open", ["default"])
    rule = "the chart reads queues here only with enterpriseFeatures.enabled: true"
    assert problems(off) == [f"values.yaml:3: enterpriseFeatures.queues: {rule}"]


BASE_IN_OURS = "kind: Queues\nbasePodTemplate: {labels: {clearml-injector/fraction: LABEL}, env: []}\n"


def test_a_base_template_in_a_queues_file_is_checked_and_not_applied():
    plain = policy_set()
    found = policy_set(queues=BASE_IN_OURS.replace("LABEL", '"0.500"'))
    assert found.resolve("default", None, None) == plain.resolve("default", None, None)
    with pytest.raises(PolicyError, match=r'queues.yaml:2: basePodTemplate.labels.*"0.5" is not allowed by'):
        policy_set(queues=BASE_IN_OURS.replace("LABEL", '"0.5"'))
    # What one policy allows may be meant for its namespaces.
    other = 'kind: Policy\nname: other\nnamespaces: [team]\nfractions: {"1.000": 8}\n'
    policy_set(queues=BASE_IN_OURS.replace("LABEL", '"1.000"'), other=other)
