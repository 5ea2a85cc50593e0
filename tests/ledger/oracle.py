"""Placement written a second time, slowly and from the rules: one node at a time, nothing remembered.

Nothing here calls the code under test; all that is shared is how Kubernetes matches labels and taints, which
tests/kube tries. It knows per-gpu mode on nodes whose labels are true; test_cards.py has examples of others.
"""

from collections.abc import Iterable

from kube.matching import labels_match, tolerates
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact, PodFact


def assert_right(
    answer: object, request: PlacementRequest, nodes: Iterable[NodeFact], pods: Iterable[PodFact]
) -> None:
    """The answer is Unschedulable only if no node fits ever, a node only if it has room now."""
    held: dict[str, list[PodFact]] = {}
    for pod in pods:
        held.setdefault(pod.node or "", []).append(pod)
    eligible = {node.name: node for node in nodes if could_ever_hold(node, request)}
    if not eligible:
        assert isinstance(answer, Unschedulable)
        return
    assert isinstance(answer, Placement)
    roomy = {name: roomy_gpus(node, held.get(name, []), request) for name, node in eligible.items()}
    gpus, indices = request.share.fraction.gpus, {*answer.indices}
    fitting = [name for name, found in roomy.items() if len(found) >= gpus]
    assert len(indices) == len(answer.indices) == gpus
    if answer.node is None:
        assert not fitting
        assert any(indices <= dict(node.gpus).keys() for node in eligible.values())
        return
    if request.accounting.owner and request.demands.place == "spread":
        shares = {name: _shares(held.get(name, []), request.accounting.owner) for name in fitting}
        fitting = [name for name in fitting if shares[name] == min(shares.values())]
    assert answer.node in fitting
    assert indices <= roomy[answer.node]
    assert answer.gpu_mib == eligible[answer.node].gpu_mib


def could_ever_hold(node: NodeFact, request: PlacementRequest) -> bool:
    """Static fit: the pod's node name, GPUs, labels and taints."""
    fraction, constraints = request.share.fraction, request.demands.constraints
    return (
        len(node.gpus) >= fraction.gpus
        and node.slices_per_gpu == fraction.slices_per_gpu
        and constraints.node_name in (None, node.name)
        and labels_match(constraints, node.name, node.labels)
        and (constraints.node_name is not None or tolerates(constraints.tolerations, node.taints))
    )


def roomy_gpus(node: NodeFact, held: list[PodFact], request: PlacementRequest) -> set[int]:
    """The GPUs with room now; none if the node lacks anything else."""
    share = request.share
    cpu, memory = sum(each.cpu_milli for each in held), sum(each.memory_bytes for each in held)
    if not node.usable or node.cpu_milli - cpu < share.cpu_milli:
        return set()
    if node.memory_bytes - memory < share.memory_bytes:
        return set()
    left = {
        index: slices - sum(dict(pod.takes).get(index, 0) for pod in held)
        for index, slices in node.gpus
        if index not in node.cordoned
    }
    return {index for index, free in left.items() if free >= share.fraction.slices_on_each}


def _shares(held: list[PodFact], owner: str) -> int:
    return sum(len(pod.takes) for pod in held if pod.owner == owner)
