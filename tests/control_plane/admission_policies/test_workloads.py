"""The label on a workload whose pods would not carry it."""

from tests.control_plane.admission_policies.support import KINDS, LABELLED, OLD, refused, workload


def message(kind, label="fraction"):
    path = ("spec.jobTemplate." if kind == "CronJob" else "") + "spec.template.metadata.labels"
    return (
        f"clearml-injector/{label} is only on the {kind}, so its pods would get no share: set it in"
        f" {path} too"
    )


def test_the_label_on_a_workload_needs_to_be_on_its_template(lock, control_plane, namespace):
    for kind in KINDS:
        with refused("workloads", message(kind)):
            control_plane.api.create(workload(kind, LABELLED, {}), namespace)
        for labels in (LABELLED, {}):
            found = control_plane.api.create(workload(kind, labels, LABELLED), namespace, dry_run=True)
            assert found["metadata"].get("labels", {}) == labels


def test_a_label_of_memory_and_an_update_that_makes_the_mistake_are_refused(lock, control_plane, namespace):
    of_memory = workload("Deployment", {"clearml-injector/gpu-memory": "4Gi"}, {})
    with refused("workloads", message("Deployment", "gpu-memory"), "-by-memory"):
        control_plane.api.create(of_memory, namespace)
    found = control_plane.api.create(workload("Deployment", {}, {}), namespace)
    with refused("workloads", message("Deployment")):
        change = {"metadata": {"labels": LABELLED}}
        control_plane.api.patch("Deployment", "work", change, namespace, found["apiVersion"])


def test_a_workload_that_is_older_than_the_rule_still_changes(lock, control_plane):
    change = {"metadata": {"annotations": {"note": "mine"}}}
    for kind, api in KINDS.items():
        found = control_plane.api.patch(kind, "work", change, OLD, api)
        assert found["metadata"]["labels"] == LABELLED
