"""What a pod is told that no node could ever hold: what the nodes lack, and what to do."""

import pytest

from kube.names import GPU_MEMORY_LABEL
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint
from ledger.placement.feasibility import Obstacle, why_unschedulable
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.ledger.cluster import eighths, gpu_node, ledger_of, request_of

INSTALL = "(docs/getting-started/install.md)"
UNLABELLED = (
    "on {} the label nvidia.com/gpu.memory is missing or not a number of MiB: ask the admin to set it"
    " (fraction-injector doctor prints how)"
)
OTHER_NAME = (
    f"on 1 node GPUs have another resource name than in the policy: ask the admin to divide them {INSTALL}"
)
OTHER_SLICES = "on 1 node GPUs are not divided into 4 slices: ask the admin to match slicesPerGpu"
COUNT_LABELS = "the labels nvidia.com/gpu.count and .replicas are missing"
NO_COUNT = f"on 1 node {COUNT_LABELS}: ask the admin to set them {INSTALL}"
NO_MATCH = "on 1 node with such GPUs, the pod's node selector or affinity does not match: fix it"
NO_TOLERATION = "on 1 node with such GPUs, the pod does not tolerate a taint: add a toleration"
PLAIN = (gpu_node("a"),)
POOL_OF = {"gpus": (), "slices_per_gpu": 0}
TERM = Constraints(required_terms=(NodeSelectorTerm(),))


@pytest.mark.parametrize(
    ("nodes_there", "unplaceable", "why"),
    [
        (PLAIN, request_of(Fraction(2, 4)), OTHER_SLICES),
        (PLAIN, eighths(32), "on 1 node there are fewer than 4 GPUs: request fewer"),
        (PLAIN, eighths(4, mode="pooled"), OTHER_NAME),
        (PLAIN, eighths(4, constraints=Constraints({"zone": "x"})), NO_MATCH),
        (PLAIN, eighths(4, constraints=TERM), NO_MATCH),
        (PLAIN, eighths(4, constraints=Constraints(node_name="z")), 'there is no node "z": correct nodeName'),
        ((gpu_node("a", taints=(Taint("nvidia.com/gpu", "NoSchedule"),)),), eighths(4), NO_TOLERATION),
        ((gpu_node("a", gpu_mib=None, labels={}),), eighths(4), UNLABELLED.format("1 node")),
        ((), eighths(4), "there is no node yet: ask the admin to add nodes, or to set assume in the policy"),
        (
            [gpu_node(name, **POOL_OF) for name in "abc"],
            eighths(4),
            f"no GPUs are offered on 3 nodes: ask the admin for a device plugin {INSTALL}",
        ),
        ([gpu_node("a", gpus=()), gpu_node("b", gpus=(), pooled=8, pooled_gpus=8)], eighths(4), OTHER_NAME),
        ([gpu_node("a", gpus=(), pooled=8, pooled_gpus=0)], eighths(4, mode="pooled"), NO_COUNT),
        (
            [gpu_node("a", gpu_mib=None), gpu_node("b", gpu_mib=None), gpu_node("c", gpus=())],
            eighths(4),
            UNLABELLED.format("2 nodes"),
        ),
    ],
)
def test_an_unschedulable_pod_is_told_what_nodes_lack_and_what_to_do(nodes_there, unplaceable, why) -> None:
    answer = ledger_of(*nodes_there).place(unplaceable, 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.why == why


def test_whole_gpus_need_no_label_of_memory() -> None:
    nameless = gpu_node("a", gpu_mib=None, labels={})
    assert ledger_of(nameless).place(eighths(8), 0.0) == Placement((0,), 0, (), "a")


SHUT_OUT = "on 2 nodes with such GPUs, the pod's node selector or affinity does not match: fix it"
MEMORY = NodeSelectorTerm(match_expressions=(Requirement(GPU_MEMORY_LABEL, "Gt", ("40000",)),))


@pytest.mark.parametrize(
    ("pool", "terms", "why"),
    [
        ("new", None, UNLABELLED.format("1 node")),
        ("new", (MEMORY,), UNLABELLED.format("1 node")),
        ("empty", None, SHUT_OUT),
        ("none", None, SHUT_OUT),
    ],
    ids=["selector", "memory, too", "without GPUs", "no such node"],
)
def test_among_other_nodes_those_that_the_pod_asked_for_are_told_of(pool, terms, why) -> None:
    new = gpu_node("a", gpu_mib=None, labels={"pool": "new"})
    others = [gpu_node(name, labels={"pool": "old", GPU_MEMORY_LABEL: "81920"}) for name in "bc"]
    bare = gpu_node("d", gpus=(), gpu_mib=None, labels={"pool": "empty"})
    constraints = Constraints({"pool": pool}, required_terms=terms)
    answer = ledger_of(new, *others, bare).place(eighths(4, constraints=constraints), 0.0)
    assert answer == Unschedulable(why)


def test_why_no_node_fits_leaves_room_for_the_denials_own_words() -> None:
    obstacles = [(found, 10_000) for found in Obstacle]
    request = request_of(Fraction(1_000_000 * 16, 16), constraints=Constraints(node_name="n" * 253))
    for found in obstacles:
        assert len(why_unschedulable([(*found, True)], request).why) <= 150


def pool(name: str, resource: str = "nvidia.com/gpu", slices: int = 16, **labels: str) -> NodeFact:
    own = {key.replace("__", "/"): value for key, value in labels.items()}
    own |= {"kubernetes.io/hostname": name, GPU_MEMORY_LABEL: "81920"}
    return gpu_node(name, gpus=(), pool=resource, pooled=slices, pooled_gpus=2, labels=own)


def of_pool(slices: int, resource: str = "nvidia.com/gpu", **fields: object) -> PlacementRequest:
    return eighths(slices, mode="pooled", pool=resource, **fields)


MPS = {"nvidia.com__gpu.sharing-strategy": "mps"}
GKE = {"cloud.google.com__gke-gpu-sharing-strategy": "time-sharing"}


@pytest.mark.parametrize("labels", [MPS, GKE], ids=["MPS", "GKE"])
def test_a_node_whose_plugin_refuses_several_slices_gets_only_pods_with_one_in_each_container(labels) -> None:
    refusing = pool("a", **labels)
    assert ledger_of(refusing).place(of_pool(4), 0.0) == Unschedulable(
        "on 1 node a container gets at most 1 slice (MPS, GKE's time sharing): request 1 of 8 slices, or"
        " ask the admin for time slicing"
    )
    with_other = ledger_of(refusing, pool("b", **{"nvidia.com__gpu.sharing-strategy": "time-slicing"}))
    for at in range(2):
        found = with_other.place(of_pool(4, reservation=f"r{at}"), 0.0)
        assert isinstance(found, Placement)
        assert found.node == "b"
    for fraction in (Fraction(1, 8), Fraction(2, 8, split=(1, 1))):
        request = request_of(fraction, mode="pooled", pool="nvidia.com/gpu")
        assert isinstance(ledger_of(refusing).place(request, 0.0), Placement)
    apart = request_of(Fraction(3, 8, split=(1, 2)), mode="pooled", pool="nvidia.com/gpu")
    assert isinstance(ledger_of(refusing).place(apart, 0.0), Unschedulable)


def test_a_pool_of_another_name_than_the_policys_holds_no_pod_and_both_names_are_said() -> None:
    shared = pool("a", "nvidia.com/gpu.shared")
    assert ledger_of(shared).place(of_pool(4), 0.0) == Unschedulable(
        "on 1 node GPUs are named nvidia.com/gpu.shared or otherwise, not nvidia.com/gpu: ask the admin to"
        " match resources.name"
    )
    assert isinstance(ledger_of(shared).place(of_pool(4, "nvidia.com/gpu.shared"), 0.0), Placement)
    found = ledger_of(shared, pool("b")).place(of_pool(4), 0.0)
    assert isinstance(found, Placement)
    assert found.node == "b"
    # A webhook of an earlier release does not say the name.
    assert isinstance(ledger_of(shared).place(of_pool(4, ""), 0.0), Placement)


def test_a_pod_waits_for_a_pool_whose_device_plugin_is_away() -> None:
    found = ledger_of(pool("a", slices=0)).place(of_pool(4), 0.0)
    assert isinstance(found, Placement)
    assert found.node is None
