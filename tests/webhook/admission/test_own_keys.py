"""One of our keys that would have no effect denies the pod: its author meant another share."""

import pytest

from tests.webhook.support import LABEL, Webhook, decide, pod, policies

OURS = "clearml-injector/"
JOB = {"group": "batch", "version": "v1", "resource": "jobs"}


def denied(found, **request):
    decided = decide(found, **request)
    assert (decided.allowed, decided.code) == (False, "key-unknown")
    return decided.message


@pytest.mark.parametrize(
    "name", ["container", "containers", "gpus", "gpu-model", "min-gpu-memory", "compute"]
)
def test_an_annotation_written_as_a_label_is_denied(name):
    assert denied(pod(labels={OURS + name: "2"})) == (
        f"label {OURS}{name} has no effect as a label: write it as an annotation"
    )


def test_a_label_written_as_an_annotation_is_denied():
    assert denied(pod(metadata={"annotations": {OURS + "gpu-memory": "8Gi"}})) == (
        f"annotation {OURS}gpu-memory has no effect as an annotation: write it as a label"
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gpu-modell", "annotation clearml-injector/gpu-model"),
        ("fractions", "label clearml-injector/fraction"),
        ("min-memory", "annotation clearml-injector/min-gpu-memory"),
    ],
)
def test_a_misspelled_key_is_denied_with_the_key_that_was_meant(key, meant):
    wrong = f"{OURS}{key} is unknown: did you mean the {meant}?"
    assert denied(pod(metadata={"annotations": {OURS + key: "x"}})) == f"annotation {wrong}"
    assert denied(pod(labels={OURS + key: "x"})) == f"label {wrong}"


def test_an_unknown_key_is_denied_with_the_known_ones():
    message = denied(pod(metadata={"annotations": {OURS + "zone": "x"}}))
    assert message.endswith(
        "remove it, or use one of fraction, gpu-memory, container, containers, gpus, gpu-model,"
        " min-gpu-memory, compute"
    )
    assert len(denied(pod(labels={OURS + "x" * 10**5: ""}))) <= 200


def test_what_the_injector_writes_is_no_mistake_of_a_copied_pod_but_as_a_label():
    written = {OURS + "slices": "4", OURS + "reservation": "r", OURS + "no-share": "q"}
    assert decide(pod(metadata={"annotations": written})).allowed
    assert "remove it" in denied(pod(labels={OURS + "slices": "4"}))


def test_a_pod_of_another_release_keeps_annotations_that_are_unknown_here():
    webhook = Webhook()
    stored = webhook.decide(pod()).stored
    stored["metadata"]["annotations"][OURS + "of-a-later-release"] = "x"
    assert webhook.decide(stored).code == "unchanged"
    stored["metadata"]["annotations"][OURS + "fraction"] = "0.250"
    assert webhook.decide(stored).code == "key-unknown"


def test_a_job_is_denied_where_its_author_sees_it():
    template = {"metadata": {"labels": {LABEL: "0.500", OURS + "gpus": "2"}}, "spec": pod()["spec"]}
    job = {"metadata": {"labels": {LABEL: "0.500"}}, "spec": {"template": template}}
    assert "write it as an annotation" in denied(job, resource=JOB)


def test_unlabelled_pods_and_queues_without_shares_are_not_denied():
    assert decide(pod(fraction=None, metadata={"annotations": {LABEL: "0.500"}})).code == "not-labelled"
    assert decide(pod(labels={OURS + "gpus": "2"}), policies("share: none")).code == "no-share"
