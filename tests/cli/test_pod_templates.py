"""fraction-injector explain of what makes pods: workloads, Jobs, and every kind with a pod template."""

from itertools import pairwise

import pytest

from tests.cli.running import as_yaml, explain, facts_of
from tests.webhook.support import pod


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_workloads_are_explained_by_the_pod_that_they_make(kind):
    template = pod()
    del template["metadata"]["name"]
    labels = {"clearml-injector/fraction": "0.500"} if kind == "Job" else {}
    metadata = {"name": "work", "namespace": "team", "labels": labels}
    facts = facts_of(as_yaml({"kind": kind, "metadata": metadata, "spec": {"template": template}}))
    assert (facts["allowed"], facts["slices"]) == (True, 4)
    made = facts["pod"]["metadata"]
    assert (made["generateName"], made["namespace"]) == ("work-", "team")


TEMPLATES = {
    "CronJob": ["spec.jobTemplate.spec.template"],
    "PyTorchJob": [f"spec.pytorchReplicaSpecs.{part}.template" for part in ("Master", "Worker")],
    "RayJob": [
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs[0].template",
        "spec.submitterPodTemplate",
    ],
    "JobSet": ["spec.replicatedJobs[0].template.spec.template"],
    "PodTemplate": ["template"],
}


def with_template(found, path, template):
    *parents, last = path.replace("[0]", ".0").split(".")
    at = found
    for key, following in pairwise([*parents, last]):
        if key == "0":
            at.append({})
            at = at[0]
        else:
            at = at.setdefault(key, [] if following == "0" else {})
    at[last] = template


@pytest.mark.parametrize("kind", TEMPLATES)
def test_every_pod_template_of_an_object_is_explained(kind):
    found = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "work", "namespace": "team"}}
    for path in TEMPLATES[kind]:
        template = pod()
        del template["metadata"]["name"], template["kind"], template["apiVersion"]
        with_template(found, path, template)
    result = explain("-", text=as_yaml(found))
    assert result.returncode == 0
    names, paths = [line for line in result.stdout.splitlines() if line[0] != " "], TEMPLATES[kind]
    decided = [line.partition(": container ")[0] for line in names]
    assert decided == [f"work-*{f' {path}' * (len(paths) > 1)}: allowed (injected)" for path in paths]


LOCKED = {"CronJob": TEMPLATES["CronJob"][0]} | dict.fromkeys(
    ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job"], "spec.template"
)


@pytest.mark.parametrize("kind", LOCKED)
def test_the_label_on_a_workload_alone_is_denied_as_in_the_cluster(kind):
    labels = {"clearml-injector/fraction": "0.500"}
    found = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "work", "labels": labels}}
    with_template(found, LOCKED[kind], {"spec": pod()["spec"]})
    facts = facts_of(as_yaml(found))
    assert (facts["allowed"], facts["code"], facts["patch"]) == (False, "label-not-on-template", [])
    assert facts["message"] == (
        f"clearml-injector/fraction is only on the {kind}, so its pods would get no share: set it in"
        f" {LOCKED[kind]}.metadata.labels too"
    )
