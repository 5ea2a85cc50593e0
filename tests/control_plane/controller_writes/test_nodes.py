"""Of nodes the controller's token changes the taint, and what dividing their MIG cards takes."""

import pytest

from controller.geometry.node_view import change_text
from kube.names import (
    CORDON_ANNOTATION,
    MIG_CHANGE_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_CONFIG_STATE_LABEL,
    MIG_DIVIDED_AT_ANNOTATION,
    PARTITIONING_LABELS,
)
from testbed.api import MERGE_PATCH
from tests.control_plane.controller_writes.support import (
    AFTER,
    BEFORE,
    CHANGE,
    DIVIDED_AT,
    OTHER,
    OURS,
    PARTITIONED,
    annotated,
    assert_policy_refuses,
    change_of,
    labels,
    taints,
    why_refused,
)

ON_NODES = {
    "a taint of another key": taints(OTHER, {"key": "mine", "effect": "NoSchedule"}),
    "a taint that evicts": taints(OTHER, {**OURS, "effect": "NoExecute"}),
    "no taint of others": taints(),
    "ours instead of others": taints(OURS),
    "another's taint changed": taints({**OTHER, "effect": "NoExecute"}),
    "a label": labels(zone="mine"),
    "a label less": labels(pool=None),
    "another's label": labels(pool="mine"),
    "a label by which cards are divided": labels(**{PARTITIONING_LABELS[1]: "mig"}),
    "an annotation": annotated("note", "mine"),
    "an annotation less": annotated("note", None),
    "GPUs out of placement": annotated(CORDON_ANNOTATION, "0"),
    "a cordon without a change": {"spec": {"unschedulable": True}},
    "a change without a cordon": annotated(MIG_CHANGE_ANNOTATION, CHANGE),
    "an empty change": annotated(MIG_CHANGE_ANNOTATION, ""),
    "a configuration without a change": labels(
        **{MIG_CONFIG_LABEL: AFTER, MIG_CONFIG_STATE_LABEL: "pending"}
    ),
    "a state without a change": labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    "a time of no division": annotated(MIG_DIVIDED_AT_ANNOTATION, DIVIDED_AT),
    "another provider": {"spec": {"providerID": "cloud://mine"}},
    "addresses of pods": {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "an owner": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "no-such-uid"}]
        }
    },
}


@pytest.mark.parametrize("change", ON_NODES.values(), ids=ON_NODES)
def test_of_a_node_nothing_else_is_changed(stolen, make_node, change):
    assert_policy_refuses(stolen, "PATCH", make_node(taints=[OTHER]), change, MERGE_PATCH)


def test_another_user_that_may_change_nodes_is_not_asked(control_plane, stolen, make_node):
    path = make_node(taints=[OTHER])
    for name, change in ON_NODES.items():
        assert why_refused(control_plane.api, "PATCH", path, change, MERGE_PATCH) == (200, ""), name


CORDONED = {
    "an admin's cordon lifted": {"spec": {"unschedulable": None}},
    "an admin's cordon taken over": change_of(CHANGE, cordoned=True),
}


@pytest.mark.parametrize("change", CORDONED.values(), ids=CORDONED)
def test_an_admins_cordon_stays(stolen, make_node, change):
    assert_policy_refuses(stolen, "PATCH", make_node(unschedulable=True), change, MERGE_PATCH)


def test_a_node_that_is_not_divided_on_demand_is_not_cordoned(stolen, make_node):
    change = change_of(CHANGE, cordoned=True)
    assert why_refused(stolen, "PATCH", make_node(), change, MERGE_PATCH) == (200, "")
    assert_policy_refuses(stolen, "PATCH", make_node(labels={}), change, MERGE_PATCH)


def ended_at(time):
    """A change that ends, with the time of its end."""
    annotations = {MIG_CHANGE_ANNOTATION: None, MIG_DIVIDED_AT_ANNOTATION: time}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": None}}


UNDER_WAY = {
    "another configuration than the change's": labels(**{MIG_CONFIG_LABEL: f"{AFTER[:-1]}b"}),
    "another's configuration": labels(**{MIG_CONFIG_LABEL: "all-balanced"}),
    "no configuration": labels(**{MIG_CONFIG_LABEL: None}),
    "a state that the MIG manager writes": labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    "another change": annotated(MIG_CHANGE_ANNOTATION, f"{CHANGE[:-1]}b"),
    "an empty change": annotated(MIG_CHANGE_ANNOTATION, ""),
    "a time before its end": annotated(MIG_DIVIDED_AT_ANNOTATION, DIVIDED_AT),
    "an end at no time": ended_at("tomorrow"),
    "its end without the cordon's": annotated(MIG_CHANGE_ANNOTATION, None),
    "the cordon's end without its own": {"spec": {"unschedulable": None}},
}


@pytest.mark.parametrize("change", UNDER_WAY.values(), ids=UNDER_WAY)
def test_a_change_under_way_is_only_carried_out_or_ended(stolen, make_node, change):
    begun = {
        "labels": {**PARTITIONED, MIG_CONFIG_LABEL: BEFORE},
        "annotations": {MIG_CHANGE_ANNOTATION: CHANGE},
    }
    path = make_node(unschedulable=True, **begun)
    assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)


def test_no_change_leads_to_a_configuration_that_is_not_ours(stolen, make_node):
    path = make_node()
    for target in ("all-balanced", ""):
        change = change_of(change_text(BEFORE, target), cordoned=True)
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
