"""Patches are applied as jsonpatch applies them, and what no rule writes is refused."""

import copy
import json

import jsonpatch
import pytest
from hypothesis import given, settings

from tests.effort import by_turns, examples
from tests.webhook.support import Webhook, default_policies
from tests.webhook.support.pods import pods
from webhook.admission.patched import UnsoundPatchError, apply_patch, rule_of

KINDS = default_policies().resolve("team", None, None).mode.kinds


@settings(max_examples=examples(by_turns("webhook", usual=100, full=200)))
@given(pods())
def test_what_rules_write_is_applied_as_jsonpatch_applies_it(made):
    found, _, _ = made
    decided = Webhook(again=False).decide(found)
    if decided.code != "injected":
        return
    patched = copy.deepcopy(found)
    apply_patch(patched, json.loads(decided.outcome.patch), KINDS)
    assert patched == decided.stored


def test_parts_of_a_path_are_unescaped_as_rfc_6901_says():
    found = {"metadata": {"annotations": {"clearml-injector/a~1": "x"}}}
    operation = {"op": "add", "path": "/metadata/annotations/clearml-injector~1a~01", "value": "y"}
    oracle = jsonpatch.apply_patch(found, [operation])
    apply_patch(found, [operation], KINDS)
    assert found == oracle == {"metadata": {"annotations": {"clearml-injector/a~1": "y"}}}


@pytest.mark.parametrize("value", [None, {}, []])
def test_what_is_empty_may_be_written_over(value):
    found = {"spec": {"affinity": value}}
    apply_patch(found, [{"op": "add", "path": "/spec/affinity", "value": {"a": 1}}], KINDS)
    assert found == {"spec": {"affinity": {"a": 1}}}


@pytest.mark.parametrize(
    ("resource", "may_go"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("clear.ml/fraction-1", True),
        ("nvidia.com/gpu-3", False),
        ("example.com/nic", False),
        ("memory", False),
    ],
)
def test_of_amounts_only_those_go_that_ours_take_the_place_of(resource, may_go):
    found = {"spec": {"containers": [{"resources": {"limits": {resource: "1"}}}]}}
    path = f"/spec/containers/0/resources/limits/{resource.replace('/', '~1')}"
    if may_go:
        apply_patch(found, [{"op": "remove", "path": path}], KINDS)
        assert found == {"spec": {"containers": [{"resources": {"limits": {}}}]}}
        return
    with pytest.raises(UnsoundPatchError, match="gpu_resources: removes a field that is not ours"):
        apply_patch(found, [{"op": "remove", "path": path}], KINDS)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/metadata/annotations", "annotations"),
        ("/metadata/annotations/clearml-injector~1env", "annotations"),
        ("/spec/initContainers/0", "limiter"),
        ("/spec/initContainers/0/env/-", "environment"),
        ("/spec/containers/0/resources/limits/nvidia.com~1gpu-0", "gpu_resources"),
        ("/spec/containers/0/volumeMounts/-", "limiter"),
        ("/spec/containers/0/image", "images"),
        ("/spec/affinity/nodeAffinity", "affinity"),
        ("/spec/tolerations/-", "mutate"),
    ],
)
def test_a_path_tells_the_rule_that_writes_there(path, rule):
    assert rule_of(path) == rule
