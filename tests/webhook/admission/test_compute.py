"""Compute: the policy's per cent for each GPU container, and the pod's own brake, never looser than it."""

import pytest

from tests.webhook.support import decide, named, pod, policies, reviewed
from tests.webhook.support.gpu_pods import sharing

COMPUTE, SM = "clearml-injector/compute", "CUDA_DEVICE_SM_LIMIT"


def braked(text, **fields):
    return pod(metadata={"annotations": {COMPUTE: text, **fields.pop("annotations", {})}}, **fields)


@pytest.mark.parametrize(
    ("text", "found", "percent"),
    [
        ("compute: same-as-memory", pod(fraction="0.500"), "50"),
        ("compute: same-as-memory", pod(fraction="0.125"), "12"),
        ('compute: same-as-memory\nfractions: {"0.001": 1}', pod(fraction="0.001"), "1"),
        ("compute: 30", pod(), "30"),
        ("compute: none", pod(), None),
        ('compute: 30\nfractions: {"1": 8}', pod(fraction="1"), None),
        ("compute: 40", braked("40"), "40"),
        ("compute: 40", braked("10"), "10"),
        ("compute: same-as-memory", braked("50"), "50"),
    ],
)
def test_a_container_gets_the_per_cent_of_its_share_of_the_policy_or_its_own(text, found, percent):
    assert dict(decide(found, policies(text)).env()).get(SM) == percent


def test_each_of_several_containers_gets_its_own():
    found = sharing("train=0.500,eval=0.250", "0.750")
    decided = decide(found, policies("compute: same-as-memory"))
    assert [dict(decided.env(name))[SM] for name in ("train", "eval")] == ["50", "25"]


@pytest.mark.parametrize(("compute", "most"), [("40", 40), ("same-as-memory", 50)])
def test_it_may_not_be_looser_than_the_policys(compute, most):
    denied = decide(braked(str(most + 1)), policies(f"compute: {compute}"))
    assert denied.code == "compute-not-allowed"
    said = f'annotation {COMPUTE} "{most + 1}" is above the {most} of policy default'
    assert denied.message == f"{said}: use a lower value, or remove it"


@pytest.mark.parametrize("text", ["0", "100", "", "30%", "030", "x", "9" * 100_000])
def test_other_texts_are_denied(text):
    denied = decide(braked(text))
    assert denied.code == "compute-not-allowed"
    assert "is not a whole number from 1 to 99" in denied.message


PARTS = {"annotations": {"clearml-injector/containers": "train=0.500"}}


@pytest.mark.parametrize(
    ("fields", "text", "why"),
    [
        ({"fraction": "1"}, 'fractions: {"1": 8}', "whole GPUs are not limited"),
        ({}, "limiter: none", "limiter none of policy default does not limit compute"),
        ({}, "limits: {from: agent}", "the node's agent does not limit compute"),
        ({}, "resources: {prefer: [mig, per-gpu]}", "MIG instances have their own compute"),
        (PARTS, "", "several containers share the GPU"),
    ],
)
def test_where_nothing_would_hold_the_pod_to_it_it_is_denied(fields, text, why):
    denied = decide(braked("30", **fields), policies(text))
    assert denied.code == "compute-not-allowed"
    assert denied.message == f'annotation {COMPUTE} "30" has no effect, because {why}: remove it'


def test_a_second_review_puts_it_back():
    webhook, stored = reviewed(braked("30"))
    named(stored["spec"]["containers"], "train")["env"] = [{"name": SM, "value": "90"}]
    assert dict(webhook.decide(stored, uid="another").env())[SM] == "30"
