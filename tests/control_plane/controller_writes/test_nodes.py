"""Of nodes the controller's token changes the taint, and what dividing their MIG cards takes."""

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

ON_NODES = [
    taints(OTHER, {"key": "mine", "effect": "NoSchedule"}),
    taints(OTHER, {**OURS, "effect": "NoExecute"}),
    taints(),
    taints(OURS),
    taints({**OTHER, "effect": "NoExecute"}),
    labels(zone="mine"),
    labels(pool=None),
    labels(pool="mine"),
    labels(**{PARTITIONING_LABELS[1]: "mig"}),
    annotated("note", "mine"),
    annotated("note", None),
    annotated(CORDON_ANNOTATION, "0"),
    {"spec": {"unschedulable": True}},
    annotated(MIG_CHANGE_ANNOTATION, CHANGE),
    annotated(MIG_CHANGE_ANNOTATION, ""),
    labels(**{MIG_CONFIG_LABEL: AFTER, MIG_CONFIG_STATE_LABEL: "pending"}),
    labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    annotated(MIG_DIVIDED_AT_ANNOTATION, DIVIDED_AT),
    {"spec": {"providerID": "cloud://mine"}},
    {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
    {"metadata": {"finalizers": ["example.com/stay"]}},
    {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "no-such-uid"}]
        }
    },
]


def test_of_a_node_nothing_else_is_changed(control_plane, stolen, make_node):
    """Another user that may change nodes is not asked."""
    path = make_node(taints=[OTHER])
    for change in ON_NODES:
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
        assert why_refused(control_plane.api, "PATCH", path, change, MERGE_PATCH) == (200, "")


def test_an_admins_cordon_stays(stolen, make_node):
    path = make_node(unschedulable=True)
    for change in ({"spec": {"unschedulable": None}}, change_of(CHANGE, cordoned=True)):
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)


def test_a_node_that_is_not_divided_on_demand_is_not_cordoned(stolen, make_node):
    change = change_of(CHANGE, cordoned=True)
    assert why_refused(stolen, "PATCH", make_node(), change, MERGE_PATCH) == (200, "")
    assert_policy_refuses(stolen, "PATCH", make_node(labels={}), change, MERGE_PATCH)


def ended_at(time):
    """A change that ends, with the time of its end."""
    annotations = {MIG_CHANGE_ANNOTATION: None, MIG_DIVIDED_AT_ANNOTATION: time}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": None}}


UNDER_WAY = [
    labels(**{MIG_CONFIG_LABEL: f"{AFTER[:-1]}b"}),
    labels(**{MIG_CONFIG_LABEL: "all-balanced"}),
    labels(**{MIG_CONFIG_LABEL: None}),
    labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    annotated(MIG_CHANGE_ANNOTATION, f"{CHANGE[:-1]}b"),
    annotated(MIG_CHANGE_ANNOTATION, ""),
    annotated(MIG_DIVIDED_AT_ANNOTATION, DIVIDED_AT),
    ended_at("tomorrow"),
    annotated(MIG_CHANGE_ANNOTATION, None),
    {"spec": {"unschedulable": None}},
]


def test_a_change_under_way_is_only_carried_out_or_ended(stolen, make_node):
    begun = {
        "labels": {**PARTITIONED, MIG_CONFIG_LABEL: BEFORE},
        "annotations": {MIG_CHANGE_ANNOTATION: CHANGE},
    }
    path = make_node(unschedulable=True, **begun)
    for change in UNDER_WAY:
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)


def test_no_change_leads_to_a_configuration_that_is_not_ours(stolen, make_node):
    path = make_node()
    for target in ("all-balanced", ""):
        change = change_of(change_text(BEFORE, target), cordoned=True)
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
