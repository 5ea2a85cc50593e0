"""Whether a node could ever hold a pod, whatever is on it now, and what to say if none can."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from ledger.ask import Ask, Misfit
from ledger.eligibility import labels_match, tolerates
from ledger.facts import NodeFact


class Obstacle(IntEnum):
    """What a pod cannot get over at a node, in the order of asking: the later, the nearer it came."""

    OTHER_NODE = 1
    NO_GPUS = 2
    SLICES = 3
    COUNT = 4
    MEMORY = 5
    LABELS = 6
    TAINTS = 7


def obstacle(node: NodeFact, ask: Ask) -> Obstacle | None:
    """The first obstacle of a pod at a node; None if it could hold the pod some day."""
    named = ask.constraints.node_name
    if named is not None and named != node.name:
        return Obstacle.OTHER_NODE
    by_gpus = gpu_obstacle(node, ask)
    if by_gpus is not None:
        return by_gpus
    if not labels_match(ask.constraints, node.name, node.labels):
        return Obstacle.LABELS
    # A pod that names its node passes the scheduler by, and its taints with it.
    if named is None and not tolerates(ask.constraints.tolerations, node.taints):
        return Obstacle.TAINTS
    return None


def gpu_obstacle(node: NodeFact, ask: Ask) -> Obstacle | None:
    """The first obstacle that the node's GPUs are: their names, slices, number or unknown memory."""
    is_pooled = ask.mode == "pooled"
    if not (node.pooled if is_pooled else node.gpus):
        return Obstacle.NO_GPUS
    gpus = node.pooled_gpus if is_pooled else len(node.gpus)
    slices_per_gpu = node.pooled // max(1, gpus) if is_pooled else node.slices_per_gpu
    # After a restart the kubelet states zero of all names until the device plugin is back.
    if slices_per_gpu not in {0, ask.fraction.slices_per_gpu}:
        return Obstacle.SLICES
    if gpus < ask.fraction.gpus:
        return Obstacle.COUNT
    if node.gpu_mib is None and not ask.fraction.is_whole:
        return Obstacle.MEMORY
    return None


def misfit(obstacles: Iterable[Obstacle], ask: Ask) -> Misfit:
    """Say why no node could ever hold the pod, by the obstacle of those that came nearest."""
    nearest = max(obstacles, default=None)
    why = {
        Obstacle.OTHER_NODE: f'there is no node "{ask.constraints.node_name}"',
        Obstacle.SLICES: f"no node divides its GPUs into {ask.fraction.slices_per_gpu} slices",
        Obstacle.COUNT: f"no node has {ask.fraction.gpus} GPUs",
        Obstacle.MEMORY: "no node tells its GPUs' memory by the label nvidia.com/gpu.memory",
        Obstacle.LABELS: "no node with such GPUs matches its node selector or affinity",
        Obstacle.TAINTS: "every node with such GPUs has a taint that it does not tolerate",
    }
    return Misfit(why.get(nearest or Obstacle.NO_GPUS, "no node has GPUs under the policy's resource name"))
