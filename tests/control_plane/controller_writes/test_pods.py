"""Of pods that wait for a quota, the controller's token removes our gate, and changes nothing beside it."""

import pytest

from cluster.kube_client import JSON_PATCH
from kube.names import QUOTA_GATE
from tests.control_plane.controller_writes.support import (
    INJECTED,
    assert_policy_refuses,
    pod,
    why_refused,
)

OURS, OTHERS = {"name": QUOTA_GATE}, {"name": "example.com/wait"}
FREE = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
WRONG = [
    [{"op": "remove", "path": "/spec/schedulingGates/0"}],
    [{"op": "remove", "path": "/spec/schedulingGates"}],
    [*FREE, {"op": "add", "path": "/metadata/labels", "value": {"mine": "yes"}}],
    [*FREE, {"op": "add", "path": "/metadata/annotations/mine", "value": "yes"}],
    [*FREE, {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]}],
    [
        *FREE,
        {"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/other:1"},
    ],
    [{"op": "add", "path": "/spec/nodeSelector", "value": {"pool": "mine"}}],
]


@pytest.fixture
def gated(control_plane, namespace):
    """Make an injected pod with a gate of somebody else and ours; return its path."""

    def one(annotations):
        made = pod("task", annotations=annotations, schedulingGates=[OTHERS, OURS])
        control_plane.api.create(made, namespace)
        return f"/api/v1/namespaces/{namespace}/pods/task"

    return one


def test_our_gate_is_removed_and_nothing_else_is_changed(control_plane, stolen, gated):
    path = gated(INJECTED)
    assert why_refused(stolen, "PATCH", path, FREE, JSON_PATCH) == (200, "")
    for patch in WRONG:
        assert_policy_refuses(stolen, "PATCH", path, patch, JSON_PATCH)
        assert why_refused(control_plane.api, "PATCH", path, patch, JSON_PATCH) == (200, "")


def test_pods_that_were_not_injected_keep_every_gate(stolen, gated):
    assert_policy_refuses(stolen, "PATCH", gated({}), FREE, JSON_PATCH)
