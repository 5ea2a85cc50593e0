"""Queue values of the ClearML agent chart: what is read, and what is wrong with it, line by line."""

import pytest

from policies.loading.clearml_chart import queue_problems, read_chart_values
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


def template(*lines):
    return queue("templateOverrides:", *[f"  {line}" for line in lines])


def test_the_documented_example_is_read_as_it_stands():
    found = read(DOCUMENTED)
    half, cpu = found.queues
    assert (found.chart, found.problems) == ("enterprise", [])
    assert (half.name, half.label) == ("default0500", "0.500")
    assert half.replaced(POLICY) == {"nvidia.com/gpu": 1, "clear.ml/fraction-1": "0.5"}
    assert half.fraction(POLICY).slices == 4
    assert half.source.line() == "values.yaml:4"
    assert cpu.label is None
    assert problems(DOCUMENTED) == []


HALF = 'labels: {clearml-injector/fraction: "0.500"}'
ROOT, Q = "agentk8sglue", "agentk8sglue.queues.q"
LABEL = f'{Q}.templateOverrides.labels."clearml-injector/fraction"'
TOO_HIGH = 'queue "gpu-half" is one level too high: move it under agentk8sglue.queues'
IN_ROOT = f"{ROOT}:\n  queues: {{}}\n  gpu-half:\n    templateOverrides: {{}}\n"


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        (
            template(HALF.replace("0.500", "0.5")),
            f"5: {LABEL}",
            '"0.5" is not allowed by policy default: use ',
        ),
        (template(HALF.replace('"', "")), f"5: {LABEL}", '0.500 must be quoted: "0.500"'),
        (template("labels: {clearml_injector/fraction: 1}"), "5: ", "label: write clearml-injector/fraction"),
        (template(HALF, "annotations: {clearml-injector/gpus: 2}"), "6: ", '2 must be quoted: "2"'),
        (queue("templateOverride: {}"), f"4: {Q}.templateOverride", 'did you mean "templateOverrides"?'),
        (queue("labels: {}"), f"4: {Q}.labels", "is one level too high: move it under templateOverrides"),
        (template("label: {}"), f"5: {Q}.templateOverrides.label", 'did you mean "labels"?'),
        (queue("queueSettings: {maxPods: '10'}"), "4: ", '"10" must be a whole number'),
        (IN_ROOT, f"3: {ROOT}.gpu-half", TOO_HIGH),
        ("gpu-half:\n  templateOverrides: {}\n", "1: gpu-half", TOO_HIGH),
        ("queues:\n  gpu-half:\n    templateOverrides: {}\n", "1: queues", f"queues belongs under {ROOT}"),
        (f"{ROOT}:\n  queues:\n    a.b: {{}}\n    a_b: {{}}\n", "4: ", 'becomes the label "a-b"'),
        (f"{ROOT}:\n  queues: [a]\n", "2: ", "must be a mapping of queue name to its values"),
        (f"{ROOT}:\n  queues:\n    a: b\n", "3: ", "must be a mapping with templateOverrides"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text, place, rule):
    [problem] = problems(text)
    assert problem.startswith(f"values.yaml:{place}")
    assert rule in problem


def test_values_of_something_else_are_a_mistake():
    [problem] = problems("other: 1\n")
    assert problem.startswith(f"values.yaml: has neither {ROOT}.queues nor {ROOT}.basePodTemplate: is it")


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
    assert [(each.name, each.label) for each in found.queues] == [("default", "0.500"), ("gpu_half", "0.500")]
    assert found.queues[0].replaced(POLICY) == {"nvidia.com/gpu": 1}
    assert found.queues[0].source.line() == "values.yaml:3"
    assert [queue.name for queue in read(OPEN.replace("  queue: default, gpu_half\n", "")).queues] == [
        "default"
    ]


def test_a_mistake_in_the_template_of_all_queues_is_reported_with_its_line():
    at = 'agentk8sglue.basePodTemplate.labels."clearml-injector/fraction"'
    rule = f'values.yaml:5: {at}: 0.500 must be quoted: "0.500"'
    assert problems(OPEN.replace('"0.500"', "0.500")) == [rule] * 2
    own = "agentk8sglue:\n  labels: {clearml-injector/fraction: '0.500'}\n  basePodTemplate: {label: {}}\n"
    agents, unknown = problems(own)
    assert agents.startswith(
        'values.yaml:2: agentk8sglue.labels."clearml-injector/fraction": labels the agent'
    )
    assert unknown.endswith('3: agentk8sglue.basePodTemplate.label: unknown key (did you mean "labels"?)')


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


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("clear.ml/fraction-1: '0.25'", "needs the label clearml-injector/fraction"),
        ("nvidia.com/gpu: 0.5", 'remove it and write the label clearml-injector/fraction: "0.500"'),
        ("nvidia.com/gpu: 1500m", "Kubernetes rejects it: write a whole number"),
    ],
)
def test_amounts_that_the_api_server_rejects_without_a_label_are_mistakes(limits, said):
    [problem] = problems(template(f"resources: {{limits: {{{limits}}}}}"))
    assert problem.startswith(f"values.yaml:5: {Q}.templateOverrides.resources.limits.")
    assert said in problem


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


def test_labels_of_the_agents_own_pod_are_told_in_one_order_by_every_process():
    labels = 'labels: {clearml-injector/gpu-memory: 1Gi, clearml-injector/fraction: "0.5"}'
    said = problems(f"{ROOT}:\n  {labels}\n  queues: {{}}\n")
    assert [each.partition("/")[2].partition('"')[0] for each in said] == ["fraction", "gpu-memory"]
    assert all("labels the agent's own pod, not its tasks" in each for each in said)
