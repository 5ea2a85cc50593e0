"""GpuNodes written as a node's agent writes them."""

from typing import Any

from kube.names import GPU_NODES_PATH
from testbed.cluster import Cluster


def report(control_plane: Cluster, node: str, **status: Any) -> None:
    """Let the agent of a node say that it serves, or what `status` says."""
    body = {
        "apiVersion": "clearml-injector.io/v1alpha1",
        "kind": "GpuNode",
        "metadata": {"name": node},
        "status": {"registered": True, "gpus": [], **status},
    }
    query = {"fieldManager": "test", "force": "true"}
    control_plane.api.call("PATCH", f"{GPU_NODES_PATH}/{node}", body, query, "application/apply-patch+yaml")


def forget(control_plane: Cluster, *nodes: str) -> None:
    for node in nodes:
        control_plane.api.call("DELETE", f"{GPU_NODES_PATH}/{node}")
