"""The annotation clearml-injector/compute: a pod's own brake on compute, never looser than the policy's."""

import pytest

from tests.webhook.support import LABEL, Webhook, decide, named, pod, policies

COMPUTE, SM = "clearml-injector/compute", "CUDA_DEVICE_SM_LIMIT"


def braked(text, **fields):
    return pod(metadata={"annotations": {COMPUTE: text, **fields.pop("annotations", {})}}, **fields)


def env(decided, name="train"):
    return dict(decided.env(name))


@pytest.mark.parametrize(("compute", "text"), [("40", "40"), ("40", "10"), ("same-as-memory", "50")])
def test_it_may_be_as_tight_as_the_policys_or_tighter(compute, text):
    assert env(decide(braked(text), policies(f"compute: {compute}")))[SM] == text


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


@pytest.mark.parametrize(
    ("fields", "text", "why"),
    [
        ({"fraction": "1"}, 'fractions: {"1": 8}', "whole GPUs are not limited"),
        ({}, "limiter: none", "limiter none of policy default does not limit compute"),
        ({}, "limits: {from: agent}", "the node's agent does not limit compute"),
        ({}, "resources: {prefer: [mig, per-gpu]}", "MIG instances have their own compute"),
        (
            {"annotations": {"clearml-injector/containers": "train=0.500"}},
            "",
            "several containers share the GPU",
        ),
    ],
)
def test_where_nothing_would_hold_the_pod_to_it_it_is_denied(fields, text, why):
    denied = decide(braked("30", **fields), policies(text))
    assert denied.code == "compute-not-allowed"
    assert denied.message == f'annotation {COMPUTE} "30" has no effect, because {why}: remove it'


def test_a_second_review_puts_it_back():
    webhook = Webhook()
    stored = webhook.decide(braked("30")).stored
    named(stored["spec"]["containers"], "train")["env"] = [{"name": SM, "value": "90"}]
    assert env(webhook.decide(stored, uid="another"))[SM] == "30"
    assert stored["metadata"]["labels"] == {LABEL: "0.500"}
