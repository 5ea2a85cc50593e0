"""Jobs: their pods are decided one by one, and what would deny all of them denies the Job."""

import pytest

from tests.webhook.support import LABEL, container, decide

JOB = {"group": "batch", "version": "v1", "resource": "jobs"}


LABELLED = {"labels": {LABEL: "0.500"}}


def job(fraction="0.500", template_labels=None, limits=None, **job_metadata):
    labels = {LABEL: fraction} if template_labels is None else template_labels
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(limits=limits)]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "labels": {LABEL: fraction}, **job_metadata},
        "spec": {"template": template},
    }


def test_a_fraction_resource_leaves_the_jobs_template():
    decided = decide(job(limits={"clear.ml/fraction-1": "0.5", "nvidia.com/gpu": "1"}), resource=JOB)
    assert decided.patch == [
        {"op": "remove", "path": f"/spec/template/spec/containers/0/resources/{field}/clear.ml~1fraction-1"}
        for field in ("limits", "requests")
    ]
    assert decide(decided.stored, resource=JOB).code == "unchanged"


@pytest.mark.parametrize("init", [False, True])
def test_a_fraction_resource_that_differs_denies_the_job(init):
    found = job(limits={"clear.ml/fraction-1": "0.25"})
    template = found["spec"]["template"]["spec"]
    if init:
        template["initContainers"] = template.pop("containers")
    decided = decide(found, resource=JOB)
    assert decided.code == "gpu-amount"
    assert decided.message == (
        f'clear.ml/fraction-1: 0.25 does not match {LABEL} "0.500": remove it, or use the value of the label'
    )


def test_a_label_that_no_pod_could_be_admitted_with_denies_the_job():
    assert decide(job("0.5"), resource=JOB).code == "label-not-allowed"
    assert decide(job(template_labels={LABEL: ""}), resource=JOB).code == "label-not-allowed"
    assert decide(job(template_labels={LABEL: "0.9"}), resource=JOB).code == "label-not-allowed"


@pytest.mark.parametrize("labels", [{}, {"clearml-agent-queue-name": "half"}])
def test_a_job_whose_template_lacks_the_label_is_denied_with_what_to_write(labels):
    decided = decide(job("0.500", template_labels=labels), resource=JOB)
    assert decided.code == "label-not-on-template"
    assert decided.message == (
        f"{LABEL} is only on the Job, so its pods would get no share: set it in"
        " spec.template.metadata.labels too"
    )


def test_an_unlabelled_job_is_let_through():
    found = job(limits={"clear.ml/fraction-1": "0.25"})
    del found["metadata"]["labels"]
    assert decide(found, resource=JOB).code == "not-labelled"


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": {"spec": None}}])
def test_a_labelled_job_without_a_template_is_left_to_the_api_server(spec):
    assert decide({"metadata": LABELLED, "spec": spec}, resource=JOB).code == "unchanged"
