"""Whether a node could ever hold a pod, whatever it holds now, and the message if no node could."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from kube.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_RESOURCE, SHARED_GPU_RESOURCE
from ledger.placement.cards import card_sets, demand, layout
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.mode import GpuCount
from modes.registry import MODES

_MAX_NAME = 63


class Obstacle(IntEnum):
    """Why a node can never run a pod, in the order of the checks: a later reason is a nearer miss."""

    OTHER_NODE = 1
    NO_GPUS = 2
    OTHER_NAME = 3
    OTHER_POOL = 4
    SLICES = 5
    COUNT_UNKNOWN = 6
    COUNT = 7
    ONE_SLICE = 8
    MEMORY = 9
    OTHER_KIND = 10
    TOO_SMALL = 11
    NO_AGENT = 12
    CARDS = 13
    UNEQUAL = 14
    LABELS = 15
    TAINTS = 16


_WHY = {
    Obstacle.OTHER_NODE: 'there is no node "{node}": correct nodeName',
    Obstacle.NO_GPUS: "no GPUs are offered {at}: ask the admin for a device plugin"
    " (docs/getting-started/install.md)",
    Obstacle.OTHER_NAME: "{at} GPUs have another resource name than in the policy: ask the admin"
    " to divide them (docs/getting-started/install.md)",
    Obstacle.OTHER_POOL: "{at} GPUs are named {other} or otherwise, not {pool}: ask the admin to match"
    " resources.name",
    Obstacle.SLICES: "{at} GPUs are not divided into {slices} slices: ask the admin to match slicesPerGpu",
    Obstacle.COUNT_UNKNOWN: f"{{at}} the labels {GPU_COUNT_LABEL} and .replicas are missing: ask the admin to"
    " set them (docs/getting-started/install.md)",
    Obstacle.COUNT: "{at} there are fewer than {gpus} GPUs: request fewer",
    Obstacle.ONE_SLICE: "{at} a container gets at most 1 slice (MPS, GKE's time sharing): request 1 of"
    " {slices} slices, or ask the admin for time slicing",
    Obstacle.MEMORY: f"{{at}} the label {GPU_MEMORY_LABEL} is missing or not a number of MiB: ask the admin"
    " to set it (fraction-injector doctor prints how)",
    Obstacle.OTHER_KIND: "{at} the GPUs have another memory size: request less",
    Obstacle.TOO_SMALL: "{at} a GPU has less than the required {mib} MiB: request less",
    Obstacle.NO_AGENT: "{at} no node agent runs, and nothing else would limit the pod: ask the admin for the"
    " agent there (docs/getting-started/agent.md)",
    Obstacle.CARDS: "{at} no GPU is of the requested kind and as large as the label states: request another",
    Obstacle.UNEQUAL: "{at} there are fewer than {gpus} equal GPUs, and unequal ones cannot be limited"
    " together: request fewer",
    Obstacle.LABELS: "{at} with such GPUs, the pod's node selector or affinity does not match: fix it",
    Obstacle.TAINTS: "{at} with such GPUs, the pod does not tolerate a taint: add a toleration",
}


def takes_now(node: NodeFact, request: PlacementRequest) -> bool:
    """Whether a node that could ever hold the pod takes it now, if it has room."""
    return node.usable and (not request.share.needs_agent or node.agent in {"serving", "unknown"})


def as_offered(node: NodeFact, request: PlacementRequest) -> NodeFact:
    """Return a node as its agent will offer its cards, if the pod waits for that."""
    share = request.share
    if not (request.demands.awaits_names and node.cards) or share.mode_type.gpu_count(node) is not None:
        return node
    gpus = tuple([(index, 0) for index, _ in node.cards])
    return msgspec.structs.replace(node, gpus=gpus, slices_per_gpu=0, pool=share.pool, pooled_gpus=len(gpus))


def gpu_obstacle(node: NodeFact, request: PlacementRequest) -> Obstacle | None:
    """The first obstacle in a node's GPUs: names, slices, number, memory, agent."""
    node = as_offered(node, request)
    share, mode, fraction = request.share, request.share.mode_type, request.share.fraction
    count = mode.gpu_count(node)
    if count is None or share.resource_unit not in mode.resource_units(node):
        is_offered = any(other.gpu_count(node) for other in MODES.values())
        return Obstacle.OTHER_NAME if is_offered else Obstacle.NO_GPUS
    by_count = _count_obstacle(node, request, count)
    if by_count is not None:
        return by_count
    by_cards = _card_obstacle(node, request) if node.cards else None
    by_memory = _memory_obstacle(node, fraction, needs_memory=share.is_bound_by_memory) or by_cards
    if by_memory is not None:
        return by_memory
    return Obstacle.NO_AGENT if share.needs_agent and node.agent == "missing" else None


def _count_obstacle(node: NodeFact, request: PlacementRequest, count: GpuCount) -> Obstacle | None:
    share, fraction, (gpus, slices_per_gpu) = request.share, request.share.fraction, count
    if share.pool and node.pool and share.pool != node.pool:
        return Obstacle.OTHER_POOL
    if not gpus:
        return Obstacle.COUNT_UNKNOWN
    # After a restart the kubelet reports zero for all names until the device plugin is back.
    if slices_per_gpu not in {0, fraction.slices_per_gpu}:
        return Obstacle.SLICES
    if gpus < fraction.gpus:
        return Obstacle.COUNT
    refusing = share.mode_type.refusing_nodes(fraction)
    return Obstacle.ONE_SLICE if any(node.labels.get(key) == refusing[key] for key in refusing) else None


def _card_obstacle(node: NodeFact, request: PlacementRequest) -> Obstacle | None:
    wanted = demand(request)
    if card_sets(node, wanted) != () or wanted is None:
        return None
    of_one = card_sets(node, wanted._replace(gpus=1, are_equal=False))
    return Obstacle.CARDS if of_one == () else Obstacle.UNEQUAL


def _memory_obstacle(node: NodeFact, fraction: Fraction, *, needs_memory: bool) -> Obstacle | None:
    gpu_mib = node.gpu_mib
    if not needs_memory and layout(node) is not None:
        return None
    if gpu_mib is None:
        return Obstacle.MEMORY if needs_memory else None
    on_card = fraction.on_card(gpu_mib)
    if on_card == fraction:
        return None
    return Obstacle.TOO_SMALL if on_card is None else Obstacle.OTHER_KIND


def why_unschedulable(
    obstacles: Iterable[tuple[Obstacle, int, bool]], request: PlacementRequest
) -> Unschedulable:
    """Return why no node could ever hold the pod, by the obstacle of the nearest miss, and what to do.

    Nodes with GPUs that the pod's own demands accept are nearer than nodes that these demands exclude: each
    obstacle comes with its number of nodes, and whether these demands accept them.
    """
    counts: Counter[tuple[bool, Obstacle]] = Counter()
    for found, nodes, is_accepted in obstacles:
        if nodes:
            counts[is_accepted and found > Obstacle.NO_GPUS, found] += nodes
    if not counts:
        return Unschedulable(
            "there is no node yet: ask the admin to add nodes, or to set assume in the policy"
        )
    nearest, fraction = max(counts), request.share.fraction
    text = _WHY[nearest[1]].format(
        at="on 1 node" if counts[nearest] == 1 else f"on {counts[nearest]} nodes",
        node=(request.demands.constraints.node_name or "")[:_MAX_NAME],
        slices=fraction.slices_per_gpu,
        gpus=fraction.gpus,
        mib=fraction.asked_mib(),
        pool=request.share.pool[:_MAX_NAME],
        other=GPU_RESOURCE if request.share.pool == SHARED_GPU_RESOURCE else SHARED_GPU_RESOURCE,
    )
    return Unschedulable(text, lacks_names=nearest[1] in {Obstacle.NO_GPUS, Obstacle.OTHER_NAME})
