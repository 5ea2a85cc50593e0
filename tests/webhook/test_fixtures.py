"""Shared fixtures that are not in the table of `explain`: reviews of updates, and pods that were changed."""

import json

import pytest

from cli.explainer import Explainer
from cli.manifests import read_objects
from tests.webhook.support import FIXTURES, Webhook, default_policies, fixture_ledger, fixture_review, named

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["pods"]
REVIEWED = sorted(path.name.removesuffix(".json") for path in (FIXTURES / "admission-reviews").iterdir())


def test_every_manifest_has_an_expectation_and_the_other_way_round():
    assert {path.stem for path in (FIXTURES / "manifests").glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", [name for name in REVIEWED if not name.endswith(".create")])
def test_updates_and_subresources_are_let_through_untouched(name):
    decided = Webhook().send(fixture_review(name))
    assert (decided.allowed, decided.code, decided.patch) == (True, "not-handled", [])


def added(name):
    (found,) = read_objects(FIXTURES / "added" / f"{name}.yaml")
    (explained,) = Explainer(default_policies(), fixture_ledger()).explain(found)
    return explained


def after(name, container="train"):
    pod = added(name).pod
    return pod["spec"], named(pod["spec"]["containers"], container)


def test_a_forged_complete_injection_keeps_its_index_and_gets_the_limiter():
    spec, train = after("forged-complete-injection")
    assert train["resources"]["limits"] == {"nvidia.com/gpu-1": "4"}
    assert {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "40960m"} in train["env"]
    assert [init["name"] for init in spec["initContainers"]] == ["gpu-limiter"]


def test_a_sidecar_added_after_us_gets_its_void_and_the_pod_its_marker():
    patch = added("sidecar-after-us").patch
    assert [operation["path"] for operation in patch] == [
        "/metadata/annotations/clearml-injector~1injected",
        "/spec/containers/0/env",
    ]
    assert patch[1]["value"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_both_copies_of_a_reserved_variable_go():
    _, train = after("reserved-variable-twice")
    limits = [entry["value"] for entry in train["env"] if entry["name"] == "CUDA_DEVICE_MEMORY_LIMIT_0"]
    assert limits == ["5757m"]
    assert train["env"][0] == {"name": "FOO", "value": "bar"}


def test_an_empty_affinity_term_stays_empty():
    spec, _ = after("empty-affinity-term")
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    empty, term = required["nodeSelectorTerms"]
    assert empty == {}
    assert [expression["key"] for expression in term["matchExpressions"]] == [
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.memory",
    ]


@pytest.mark.parametrize(
    ("name", "code"), [("host-path-double-slash", "host-path"), ("mount-at-limiter", "mount-path")]
)
def test_ways_past_the_share_are_denied(name, code):
    assert (added(name).allowed, added(name).as_json()["code"]) == (False, code)
