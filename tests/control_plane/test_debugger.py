"""A debugger that joins a pod with a share, on a real API server with the webhook behind it."""

from testbed.gpu_nodes import GpuNode
from tests.shapes import shape

STRATEGIC = "application/strategic-merge-patch+json"
DEBUGGER = {"name": "debugger-x7k2p", "image": "busybox:1.28", "stdin": True, "tty": True}


def test_a_debugger_that_joins_a_pod_changes_nothing_of_its_share(webhook, nodes, control_plane, namespace):
    nodes(GpuNode(product="A100-SXM4-80GB"))
    webhook()
    made = control_plane.api.create(shape("kubectl-debug"), namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{made['metadata']['name']}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [DEBUGGER]}}
    joined = control_plane.api.call("PATCH", path, patch, content=STRATEGIC)
    assert [each["name"] for each in joined["spec"]["ephemeralContainers"]] == [DEBUGGER["name"]]
    assert joined["spec"]["containers"] == made["spec"]["containers"]
