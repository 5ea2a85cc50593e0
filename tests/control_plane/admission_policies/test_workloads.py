"""The label on a workload whose pods would not carry it."""

import pytest

from tests.control_plane.admission_policies.support import KINDS, LABELLED, OLD, refused, workload


def message(kind):
    path = ("spec.jobTemplate." if kind == "CronJob" else "") + "spec.template.metadata.labels"
    return (
        f"clearml-injector/fraction is only on the {kind}, so its pods would get no share: set it in"
        f" {path} too"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_on_a_workload_alone_is_refused(lock, control_plane, namespace, kind):
    with refused("workloads", message(kind)):
        control_plane.api.create(workload(kind, LABELLED, {}), namespace)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [LABELLED, {}], ids=["both", "template alone"])
def test_the_label_on_the_template_is_enough(lock, control_plane, namespace, kind, labels):
    found = control_plane.api.create(workload(kind, labels, LABELLED), namespace)
    assert found["metadata"].get("labels", {}) == labels


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_an_update_that_makes_the_mistake_is_refused(lock, control_plane, namespace, kind):
    found = control_plane.api.create(workload(kind, {}, {}), namespace)
    with refused("workloads", message(kind)):
        control_plane.api.patch(
            kind, "work", {"metadata": {"labels": LABELLED}}, namespace, found["apiVersion"]
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_that_is_older_than_the_rule_still_changes(lock, control_plane, kind):
    change = {"metadata": {"annotations": {"note": "mine"}}}
    found = control_plane.api.patch(kind, "work", change, OLD, KINDS[kind])
    assert found["metadata"]["labels"] == LABELLED
