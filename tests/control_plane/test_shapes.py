"""Pods as other projects make them, created on a real API server with the webhook behind it."""

from typing import Any

import pytest

from testbed.api import Api, ApiError
from testbed.gpu_nodes import GpuNode
from tests.shapes import EXPECTED, TABLE, holders, shape

DENIED = 'admission webhook "fractions.clearml-injector.io" denied the request: '
STRATEGIC = "application/strategic-merge-patch+json"
DEBUGGER = {"name": "debugger-x7k2p", "image": "busybox:1.28", "stdin": True, "tty": True}


@pytest.fixture
def recorded(nodes, webhook):
    """The webhook, with room for every shape."""
    nodes(*[GpuNode(gpus=8, product="A100-SXM4-80GB")] * 5)
    return webhook(recorded=True)


def test_every_shape_becomes_what_the_table_says(recorded, control_plane, namespace):
    found = {name: outcome(control_plane.api, namespace, name, recorded) for name in TABLE}
    assert found == EXPECTED


def outcome(api: Api, namespace: str, name: str, recorded: Any) -> str:
    """Create a shape; return what became of it, in the table's words."""
    try:
        made = api.create(shape(name), namespace)
    except ApiError as error:
        explained = recorded.explain(recorded.reviews_of("Pod")[-1])
        is_explained = str(error).endswith(f"{DENIED}{explained['message']}")
        return f"denied: {explained['code']}" if is_explained else str(error)
    [holder] = holders(made)
    assert made["metadata"]["annotations"]["clearml-injector/gpu-container"] == holder
    return holder


def test_a_debugger_that_joins_a_shape_later_changes_nothing_of_its_share(recorded, control_plane, namespace):
    made = control_plane.api.create(shape("kubectl-debug"), namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [DEBUGGER]}}
    joined = control_plane.api.call("PATCH", path, patch, content=STRATEGIC)
    assert [each["name"] for each in joined["spec"]["ephemeralContainers"]] == [DEBUGGER["name"]]
    assert joined["spec"]["containers"] == made["spec"]["containers"]
