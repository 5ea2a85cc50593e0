"""An annotation that pods' authors write takes four files, all of them named here."""

import json
from pathlib import Path

import pytest

from tests.changed_checkout import changed_checkout, run_python

pytestmark = pytest.mark.slow

RULE = '''"""The annotation that names the policy which a pod's author expects."""

from kube.names import EXPECTED_POLICY_ANNOTATION
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.pod import ObjectMeta


def refuse_policy(metadata: ObjectMeta, policy: EffectivePolicy) -> Denial | None:
    """Deny a pod that another policy is in force for."""
    text = (metadata.annotations or {}).get(EXPECTED_POLICY_ANNOTATION)
    if text in {None, policy.name}:
        return None
    rule = f'{EXPECTED_POLICY_ANNOTATION} "{cut_text(text, 40)}": the policy is {policy.name}'
    return Denial.of(Reason.EXPECTED_POLICY, f"{rule}: write that, or remove the annotation")
'''
FILES = {
    Path("kube/names.py"): [
        ('INJECTED_ANNOTATION = PREFIX + "injected"', 'EXPECTED_POLICY_ANNOTATION = PREFIX + "policy"\n'),
    ],
    Path("kube/reasons.py"): [
        ('    COMPUTE = "compute-not-allowed"', '    EXPECTED_POLICY = "policy-not-expected"\n'),
    ],
    Path("webhook/admission/expected_policy.py"): [("", RULE)],
    Path("webhook/admission/validate.py"): [
        (
            "from webhook.admission.gpus import",
            "from webhook.admission.expected_policy import refuse_policy\n",
        ),
        (
            "    wanted = _wanted(metadata, asked, policy)\n",
            (
                "    unexpected = refuse_policy(metadata, policy)\n"
                "    if unexpected is not None:\n"
                "        return unexpected\n"
            ),
        ),
    ],
}
"""What is added, and before what: name, reason and rule, and where the rule comes in. The cache leaves pods
with any of our annotations to the rules. docs/reference/reasons.md and docs/using/pods.md describe it."""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: train
  labels: {clearml-injector/fraction: "0.500"}
  annotations: {clearml-injector/policy: %s}
spec: {containers: [{name: main, image: "ubuntu:24.04"}]}
---
"""
NODE = """
kind: Node
metadata: {name: gpu-0, labels: {nvidia.com/gpu.memory: "81920"}}
status: {allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu-0: 8}}
"""


def explained(folder, tmp_path):
    """What a checkout decides for a pod that expects the policy in force, and for one that does not."""
    (tmp_path / "inventory.yaml").write_text(NODE)
    (tmp_path / "pods.yaml").write_text(POD % "default" + POD % "other")
    options = "--inventory", tmp_path / "inventory.yaml", "--output", "json"
    ended = run_python(folder, "-m", "cli.main", "explain", tmp_path / "pods.yaml", *options)
    return [facts["code"] for facts in json.loads(ended.stdout or "[]")]


DECIDED = ["injected", "policy-not-expected"]


def test_an_annotation_is_four_files(tmp_path):
    assert explained(changed_checkout(tmp_path / "checkout", FILES), tmp_path) == DECIDED


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_file_can_be_left_out(tmp_path, file):
    rest = {each: additions for each, additions in FILES.items() if each != file}
    assert explained(changed_checkout(tmp_path / "checkout", rest), tmp_path) != DECIDED
