"""The custom resource GpuNode: what an agent says of the GPUs of its node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.gpu import Gpu
from agent.state import Held
from kube.names import API_VERSION

MAX_GPUS = 64
MAX_NAME = 128
MAX_TEXT = 1024
MAX_BOOT_ID = 64
MAX_NUMA_NODE = 1023
"""The kernel has no higher number."""
NUMA_NODE = "numaNode"
"""The youngest field of a card: a schema of before refuses it."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What changes of a node while its GPUs stay."""

    unhealthy: Mapping[str, str]
    """Why a GPU may not be given to new pods, by uuid."""
    missing: str | None
    """Why the kubelet does not count every resource; None if it does."""
    boot_id: str
    """Tells one boot of the node from the next; empty where that is not known."""
    held: Mapping[str, Held] | None = None
    """What containers hold, by uuid; None while the kubelet's books cannot be read."""
    whole: Collection[str] = ()
    """Uuids of the GPUs that are not divided."""


def manifest(node: str, node_uid: str, gpus: Iterable[Gpu], report: NodeReport) -> dict[str, Any]:
    """Return the object, owned by the Node, so that it goes with it.

    Args:
        node: name.
        node_uid: of the Node.
        gpus: all, those in MIG mode and those that stay whole included.
        report: what else is said.
    """
    missing = report.missing
    cards = [_card(gpu, report) for gpu in gpus][:MAX_GPUS]
    status: dict[str, Any] = {
        "gpuCount": len(cards),
        "unhealthy": sum(not card["healthy"] for card in cards),
        "registered": missing is None,
        "bootID": report.boot_id[:MAX_BOOT_ID],
        "gpus": cards,
    }
    if missing is not None:
        status["missing"] = missing[:MAX_TEXT]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "GpuNode",
        "metadata": {"name": node, "ownerReferences": [owner]},
        "status": status,
    }


def _card(gpu: Gpu, report: NodeReport) -> dict[str, Any]:
    why, held = report.unhealthy.get(gpu.uuid), (report.held or {}).get(gpu.uuid)
    card: dict[str, Any] = {
        "index": gpu.index,
        "uuid": gpu.uuid[:MAX_NAME],
        "model": gpu.model[:MAX_NAME],
        "memoryMiB": gpu.memory_mib,
        "healthy": why is None,
        "mig": gpu.mig,
    }
    if gpu.numa_node is not None and gpu.numa_node <= MAX_NUMA_NODE:
        card[NUMA_NODE] = gpu.numa_node
    if gpu.uuid in report.whole:
        card["whole"] = True  # on no other: a schema of before refuses what it does not know
    if held is not None:
        card |= {"heldSlices": held.slices, "heldPods": held.pods}
    return card if why is None else {**card, "why": why[:MAX_TEXT]}


def without_numa_nodes(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object as a schema takes it that does not know the NUMA nodes of cards."""
    status = body["status"]
    cards = [{key: value for key, value in card.items() if key != NUMA_NODE} for card in status["gpus"]]
    return {**body, "status": {**status, "gpus": cards}}
