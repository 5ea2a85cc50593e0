"""The ledger as it is published, and the truth that it must equal: what the kubelets have given out."""

from contextlib import suppress

from kube.names import GPU_LEDGERS_PATH
from testbed.nodes.cluster import RealCluster
from testbed.process import eventually

SETTLED_S = 200

Held = dict[tuple[str, str, str], int]
"""Slices by namespace, pod and resource name."""


def published(cluster: RealCluster) -> Held:
    """What the GpuLedgers say that pods hold."""
    held: Held = {}
    for ledger in cluster.api.call("GET", GPU_LEDGERS_PATH)["items"]:
        for gpu in ledger.get("status", {}).get("gpus", []):
            for share in gpu.get("shares", []):
                if share["kind"] == "holder":
                    resource = f"nvidia.com/gpu-{gpu['index']}"
                    held[share["namespace"], share["name"], resource] = share["slices"]
    return held


def overcommitted(cluster: RealCluster) -> list[str]:
    """Nodes of which the ledger says that more is held than there is."""
    ledgers = cluster.api.call("GET", GPU_LEDGERS_PATH)["items"]
    return [ledger["metadata"]["name"] for ledger in ledgers if ledger.get("status", {}).get("over")]


def until_true(cluster: RealCluster, residents: int) -> None:
    """Wait until ledger and kubelets say the same, of that many pods that stay."""

    def equal() -> bool:
        held = published(cluster)
        with suppress(AssertionError):  # a kubelet does not answer yet
            return held == cluster.held_slices() and len(held) == residents
        return False

    eventually(equal, f"the ledger equals what {residents} pods hold", SETTLED_S)
    assert overcommitted(cluster) == []
