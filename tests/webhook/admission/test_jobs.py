"""Jobs: their pods are decided one by one, and what would deny all of them denies the Job."""

import pytest

from tests.webhook.support import LABEL, container, decide, pod
from tests.webhook.support.gpu_pods import JOBS, job_of, sharing
from webhook.admission import sizes


def job(fraction="0.500", limits=None):
    return job_of(pod(fraction=fraction, containers=[container(limits=limits)]))


def test_a_fraction_resource_leaves_the_jobs_template():
    decided = decide(job(limits={"clear.ml/fraction-1": "0.5", "nvidia.com/gpu": "1"}), resource=JOBS)
    assert decided.patch == [
        {"op": "remove", "path": f"/spec/template/spec/containers/0/resources/{field}/clear.ml~1fraction-1"}
        for field in ("limits", "requests")
    ]
    assert decide(decided.stored, resource=JOBS).code == "unchanged"


@pytest.mark.parametrize("init", [False, True])
def test_a_fraction_resource_that_differs_denies_the_job(init):
    found = job(limits={"clear.ml/fraction-1": "0.25"})
    template = found["spec"]["template"]["spec"]
    if init:
        template["initContainers"] = template.pop("containers")
    decided = decide(found, resource=JOBS)
    assert decided.code == "gpu-amount"
    assert decided.message == (
        f'clear.ml/fraction-1: 0.25 does not match {LABEL} "0.500": remove it, or use the value of the label'
    )


MANY = [container(f"c{number}") for number in range(sizes.MAX_CONTAINERS + 1)]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (job("0.5"), "label-not-allowed"),
        (job(""), "label-not-allowed"),
        (job_of(pod(containers=MANY)), "pod-too-large"),
        (job_of(sharing("train=0.500", "0.750")), "containers-not-allowed"),
        (
            job_of(
                pod(
                    metadata={"labels": {LABEL: "0.500"}, "annotations": {"clearml-injector/gpu-model": ",,"}}
                )
            ),
            "gpu-kind",
        ),
    ],
)
def test_what_would_deny_each_of_its_pods_denies_the_job(found, code):
    assert decide(found, resource=JOBS).code == code
    del found["metadata"]["labels"]
    assert decide(found, resource=JOBS).code == "not-labelled"


@pytest.mark.parametrize("labels", [{}, {"clearml-agent-queue-name": "half"}])
def test_a_job_whose_template_lacks_the_label_is_denied_with_what_to_write(labels):
    found = job()
    found["spec"]["template"]["metadata"] = {"labels": labels}
    decided = decide(found, resource=JOBS)
    assert decided.code == "label-not-on-template"
    assert decided.message == (
        f"{LABEL} is only on the Job, so its pods would get no share: set it in"
        " spec.template.metadata.labels too"
    )


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": {"spec": None}}])
def test_a_labelled_job_without_a_template_is_left_to_the_api_server(spec):
    found = {"metadata": {"labels": {LABEL: "0.500"}}, "spec": spec}
    assert decide(found, resource=JOBS).code == "unchanged"
