"""One of our keys that would have no effect denies the pod: its author meant another share."""

import pytest

from tests.webhook.support import LABEL, Webhook, decide, pod, policies
from tests.webhook.support.gpu_pods import JOBS, job_of

OURS = "clearml-injector/"
AS_LABEL = [
    (name, "has no effect as a label: write it as an annotation")
    for name in ("container", "containers", "gpus", "gpu-model", "min-gpu-memory", "compute")
]
MISSPELLED = [
    ("gpu-modell", "is unknown: did you mean the annotation clearml-injector/gpu-model?"),
    ("fractions", "is unknown: did you mean the label clearml-injector/fraction?"),
    ("min-memory", "is unknown: did you mean the annotation clearml-injector/min-gpu-memory?"),
]
MISPLACED = f"annotation {LABEL} has no effect as an annotation: write it as a label"
KNOWN = "fraction, gpu-memory, container, containers, gpus, gpu-model, min-gpu-memory, compute"


@pytest.mark.parametrize(
    ("kind", "name", "rule"),
    [
        *(("label", *row) for row in (*AS_LABEL, *MISSPELLED)),
        *(("annotation", *row) for row in MISSPELLED),
        ("annotation", "gpu-memory", "has no effect as an annotation: write it as a label"),
    ],
)
def test_a_key_that_means_another_is_denied_with_what_was_meant(kind, name, rule):
    says = {OURS + name: "x"}
    decided = decide(pod(labels=says) if kind == "label" else pod(metadata={"annotations": says}))
    assert (decided.code, decided.message) == ("key-unknown", f"{kind} {OURS}{name} {rule}")


def test_two_mistakes_are_named_in_one_line_or_the_first_with_the_known_keys_if_they_do_not_fit():
    as_annotation = {"annotations": {LABEL: "0.500"}}
    both = decide(pod(labels={OURS + "memory": "1Gi"}, metadata=as_annotation)).message
    assert both.endswith(f"did you mean the label {OURS}gpu-memory?; {MISPLACED}")
    one = decide(pod(labels={OURS + "zone": "x"}, metadata=as_annotation)).message
    assert one.endswith(f"remove it, or use one of {KNOWN}")
    assert len(decide(pod(labels={OURS + "x" * 10**5: ""})).message) <= 200


def test_what_the_injector_writes_is_no_mistake_of_a_copied_pod_but_as_a_label():
    written = {OURS + "slices": "4", OURS + "reservation": "r", OURS + "no-share": "q"}
    assert decide(pod(metadata={"annotations": written})).allowed
    assert "remove it" in decide(pod(labels={OURS + "slices": "4"})).message


def test_a_pod_of_another_release_keeps_annotations_that_are_unknown_here():
    webhook = Webhook()
    stored = webhook.decide(pod()).stored
    stored["metadata"]["annotations"][OURS + "of-a-later-release"] = "x"
    assert webhook.decide(stored).code == "unchanged"
    stored["metadata"]["annotations"][OURS + "fraction"] = "0.250"
    assert webhook.decide(stored).code == "key-unknown"


def test_a_job_is_denied_where_its_author_sees_it_and_others_are_not():
    assert decide(job_of(pod(labels={OURS + "gpus": "2"})), resource=JOBS).code == "key-unknown"
    assert decide(pod(fraction=None, metadata={"annotations": {LABEL: "0.500"}})).code == "not-labelled"
    assert decide(pod(labels={OURS + "gpus": "2"}), policies("share: none")).code == "no-share"
