"""The syntax of another system takes three files, all of them named here.

The chart's webhook configuration also has to send such pods: each system has a condition of its own there.
"""

import json
from pathlib import Path

import pytest

from tests.changed_checkout import changed_checkout, run_python

pytestmark = pytest.mark.slow

OTHER = '''"""Translates a pod with the annotation example.com/share."""

from webhook.admission.alias_words import Alias, System, fraction_label, rewritten, words_of
from webhook.admission.denial import Denial
from webhook.admission.pod import Pod

NAME = "example.com/share"


def _asks(metadata, spec):
    return NAME in (metadata.annotations or ())


def _read(metadata, spec, policy):
    label = fraction_label(NAME, metadata.annotations[NAME], policy)
    if isinstance(label, Denial):
        return label
    changed, operations = rewritten(metadata, label, {}, [NAME])
    return Alias(Pod(changed, spec), operations, words_of(NAME, label))


OTHER = System(_asks, _read, (NAME,), (NAME,))
'''
FILES = {
    Path("policies/model/asking.py"): [
        (
            '    gpucores: GpuCores = "deny"\n',
            '    other: bool = False\n    """The annotation `example.com/share`."""\n',
        ),
    ],
    Path("webhook/admission/alias_of_other.py"): [("", OTHER)],
    Path("webhook/admission/aliases.py"): [
        ("from webhook.admission.alias_words", "from webhook.admission.alias_of_other import OTHER\n"),
        ('    "hami": HAMI,\n', '    "other": OTHER,\n'),
    ],
}
"""What is added, and before what."""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, annotations: {example.com/share: "%s"}}
spec: {containers: [{name: main, image: "ubuntu:24.04"}]}
---
"""
NODE = """
kind: Node
metadata: {name: gpu-0, labels: {nvidia.com/gpu.memory: "81920"}}
status: {allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu-0: 8}}
"""


def explained(folder, tmp_path):
    """What a checkout decides for a pod of a known fraction and one of an unknown one."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text("{kind: Policy, name: default, aliases: {other: true}}")
    (tmp_path / "inventory.yaml").write_text(NODE)
    (tmp_path / "pods.yaml").write_text(POD % "0.5" + POD % "0.3")
    options = "--policies", policies, "--inventory", tmp_path / "inventory.yaml", "--output", "json"
    ended = run_python(folder, "-m", "cli.main", "explain", tmp_path / "pods.yaml", *options)
    return [(facts["code"], facts["slices"]) for facts in json.loads(ended.stdout or "[]")]


TRANSLATED = ("injected", 4)


def test_the_syntax_of_another_system_is_three_files(tmp_path):
    checkout = changed_checkout(tmp_path / "checkout", FILES)
    assert explained(checkout, tmp_path) == [TRANSLATED, ("alias-not-allowed", None)]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_file_can_be_left_out(tmp_path, file):
    rest = {each: additions for each, additions in FILES.items() if each != file}
    assert TRANSLATED not in explained(changed_checkout(tmp_path / "checkout", rest), tmp_path)
