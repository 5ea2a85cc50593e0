"""`check`: what each queue's pods get; tests/cli/test_rules_agree.py holds it against the webhook."""

import pytest

from tests.cli.running import FIXTURES, run
from tests.policies.console import ROOT

INVENTORY = ROOT / "examples" / "demo" / "inventory.yaml"
VALUES = """\
agentk8sglue:
  queues:
    half:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.500"}
        resources: {limits: {nvidia.com/gpu: 1, clear.ml/fraction-1: "0.5"}}
      queueSettings: {maxPods: 40}
    cpu: {}
"""


def test_a_queue_is_reported_with_slices_replaced_limits_and_what_fits(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(VALUES)
    code, out, err = run("check", values, "--inventory", INVENTORY)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "chart: the Enterprise ClearML agent's; the open one does not read agentk8sglue.queues",
        'queue half (values.yaml:3): label "0.500" is 4 of 8 slices, nvidia.com/gpu-<i>: 4',
        "  policy default, limiter hami-core",
        "  limits that will be replaced: nvidia.com/gpu: 1, clear.ml/fraction-1: 0.5",
        (
            "  maxPods 40 x 4 = 160 slices of 120 in the inventory; 30 such pods fit into it"
            " when it is empty;"
            " the rest will wait"
        ),
        "queue cpu (values.yaml:8): no fraction label, its pods are not changed",
    ]


ANNOTATED = """\
agentk8sglue:
  queues:
    pair:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.500"}
        annotations: {clearml-injector/gpus: "2", clearml-injector/gpu-model: "A100*"}
        resources: {limits: {nvidia.com/gpu: 2}}
      queueSettings: {maxPods: 4}
    large:
      templateOverrides:
        labels: {clearml-injector/gpu-memory: "6Gi"}
        annotations: {clearml-injector/gpus: "3", clearml-injector/min-gpu-memory: "200Gi"}
"""


def test_annotations_of_a_template_count_for_what_is_asked_and_for_what_fits(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(ANNOTATED)
    code, out, err = run("check", values, "--inventory", INVENTORY)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        'queue pair (values.yaml:3): label "0.500" is 8 slices: 4 of each of 2 nvidia.com/gpu-<i>',
        "  policy default, limiter hami-core",
        "  GPU models A100* alone",
        "  limits that will be replaced: nvidia.com/gpu: 2",
        "  maxPods 4 x 8 = 32 slices of 48 in the inventory; 6 such pods fit into it when it is empty",
        (
            'queue large (values.yaml:9): label "6Gi" is 6144 MiB of each of 3 GPUs, on the fewest of 8'
            " slices that hold them"
        ),
        "  policy default, limiter hami-core",
        "  any GPU model, of at least 204800 MiB",
        "  no maxPods; of the inventory: 0 such pods fit into it when it is empty",
    ]


@pytest.mark.parametrize(
    ("content", "inventory", "code", "expected"),
    [
        (None, None, 2, "cannot be read: No such file or directory"),
        ("a:\n\tb", None, 1, "values.yaml:2: is not YAML"),
        (VALUES, "missing.yaml", 2, "missing.yaml"),
        (VALUES, "policies/default.yaml", 2, "is not a Node"),
    ],
)
def test_unusable_input_is_reported(tmp_path, content, inventory, code, expected):
    values = tmp_path / "values.yaml"
    if content is not None:
        values.write_text(content)
    exit_code, _, err = run("check", values, *(["--inventory", ROOT / inventory] if inventory else []))
    assert exit_code == code
    assert expected in err


def test_values_of_both_charts_are_distinguished():
    fixtures = FIXTURES / "clearml-agent-values"
    code, out, err = run("check", fixtures / "open.yaml")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "chart: the open ClearML agent's; agentk8sglue.basePodTemplate is the template of all its queues",
        'queue gpu_half (open.yaml:11): label "0.500" is 4 of 8 slices, nvidia.com/gpu-<i>: 4',
        "  policy default, limiter hami-core",
        "  limits that will be replaced: nvidia.com/gpu: 1",
        "  no maxPods",
        'queue gpu_more (open.yaml:11): label "0.500" is 4 of 8 slices, nvidia.com/gpu-<i>: 4',
        "  policy default, limiter hami-core",
        "  limits that will be replaced: nvidia.com/gpu: 1",
        "  no maxPods",
    ]
    code, out, err = run("check", fixtures / "enterprise.yaml")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines() if line[0] != " "] == [
        "chart",
        "queue default0500 (enterprise.yaml",
        "queue default0250 (enterprise.yaml",
    ]


@pytest.fixture
def check_memory(tmp_path):
    """Checks a queue whose pods ask for so much memory."""

    def check(text, *more):
        values = tmp_path / "values.yaml"
        values.write_text(
            "agentk8sglue:\n  queues:\n    q:\n      templateOverrides:\n        labels:\n"
            f'          clearml-injector/gpu-memory: "{text}"\n'
        )
        return run("check", values, *more)

    return check


def test_a_queue_that_asks_for_memory_in_another_unit_learns_what_to_write(check_memory):
    code, _, err = check_memory("4G")
    assert code == 1
    assert 'labels."clearml-injector/gpu-memory": "4G" is not a whole number of Mi or Gi' in err
    assert 'use a value such as "3814Mi"' in err


def test_a_queue_that_gives_no_share_is_said_to(check_memory, tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text("kind: Policy\nname: default\n")
    (policies / "queues.yaml").write_text("kind: Queues\nqueues:\n  q: {share: none}\n")
    code, out, _ = check_memory("4Gi", "--policies", policies)
    assert code == 0
    assert "share: none, its pods run without a GPU: label and GPU limits are removed" in out
    assert "MiB" not in out


MISPLACED = """\
agentk8sglue:
  queue: half
  basePodTemplate:
    annotations: {clearml-injector/fraction: "0.500"}
    labels:
      clearml-injector/gpu-modell: H100
"""


def test_a_key_of_ours_in_the_wrong_place_of_a_template_is_a_mistake_with_its_line(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(MISPLACED)
    code, _, err = run("check", values)
    at = "agentk8sglue.basePodTemplate"
    as_label = "has no effect as an annotation: write it as a label"
    meant = "is unknown: did you mean the annotation clearml-injector/gpu-model?"
    assert (code, err.splitlines()) == (
        1,
        [
            f'{values}:4: {at}.annotations."clearml-injector/fraction": {as_label}',
            f'{values}:6: {at}.labels."clearml-injector/gpu-modell": {meant}',
        ],
    )


def test_a_queue_may_ask_for_decimal_memory_that_an_agent_limits_where_the_policy_says_so(
    check_memory, tmp_path
):
    policies = tmp_path / "policies"
    policies.mkdir()
    text = "kind: Policy\nname: default\nlimits: {from: agent}\nmemory: {decimal: true}\n"
    (policies / "default.yaml").write_text(text)
    code, out, _ = check_memory("4G", "--policies", policies)
    assert code == 0
    assert 'label "4G" is 3814 MiB, on the fewest of 8 slices that hold them' in out
    assert "limits from the agent of its node, to the slices and not to the MiB" in out
