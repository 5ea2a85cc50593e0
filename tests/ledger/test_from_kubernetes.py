from typing import Any

import pytest

from kube.scheduling import Taint
from ledger.claimed_cards import MAX_PARTS
from ledger.from_kubernetes import MAX_CLAIMED, MAX_MEMORY_VALUES, node_from_object
from ledger.owners import owner_key
from modes.facts import UNLIMITED, NodeFact, PodFact
from modes.resource_names import ResourceNames
from modes.units import profile_of_number
from tests.ledger.cluster import read_pod

NAMES = ResourceNames()


def node(**changes: Any) -> dict[str, Any]:
    amounts = {
        "cpu": "63500m",
        "memory": "256Gi",
        "pods": "110",
        "nvidia.com/gpu-1": "7",
        "nvidia.com/gpu-0": "8",
    }
    whole = {
        "metadata": {"name": "gpu-0", "labels": {"nvidia.com/gpu.memory": "81920"}, "managedFields": [{}]},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": amounts,
            "capacity": amounts | {"nvidia.com/gpu-1": "8"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
        },
    }
    return whole | changes


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> PodFact:
    labels = {"clearml-agent-queue-name": "q"}
    asked = {"cpu": "2", "nvidia.com/gpu-3": "4"}
    return read_pod(asked, **{"namespace": "ml", "labels": labels, "spec": spec or {}} | metadata)


def requiring(*values: str) -> dict[str, Any]:
    expression = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_a_node_is_read() -> None:
    assert node_from_object(node(), NAMES) == NodeFact(
        name="gpu-0",
        labels={"nvidia.com/gpu.memory": "81920"},
        taints=(Taint("nvidia.com/gpu", "NoSchedule"),),
        gpus=((0, 8), (1, 7)),
        slices_per_gpu=8,
        gpu_mib=81920,
        cpu_milli=63500,
        memory_bytes=256 * 2**30,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": "clearml-injector.io/agent-not-ready", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
    ],
)
def test_a_node_that_takes_no_pods_now_is_not_usable(change: dict[str, Any]) -> None:
    fact = node_from_object(node(**change), NAMES)
    assert not fact.usable
    assert fact.taints in ((), (Taint("nvidia.com/gpu", "NoSchedule"),))


def test_a_node_by_hand_needs_no_conditions_and_no_amounts() -> None:
    fact = node_from_object({"metadata": {"name": "n"}}, NAMES)
    assert fact == NodeFact(name="n", cpu_milli=UNLIMITED, memory_bytes=UNLIMITED)
    assert fact.usable


@pytest.mark.parametrize(
    ("labels", "gpus"), [({"replicas": "8"}, 2), ({"count": "2"}, 2), ({"count": "x"}, 0), ({}, 0)]
)
def test_a_pool_has_as_many_gpus_as_its_labels_tell(labels: dict[str, str], gpus: int) -> None:
    metadata = {"name": "n", "labels": {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}}
    pooled = node(metadata=metadata, status={"allocatable": {"nvidia.com/gpu.shared": "16"}})
    fact = node_from_object(pooled, NAMES)
    assert (fact.pooled, fact.pooled_gpus, fact.gpus) == (16, gpus, ())


POOLS = {
    "renamed": ({"gpu": "0", "gpu.shared": "16"}, {}, ("nvidia.com/gpu.shared", 16, 2)),
    "both": ({"gpu": "6", "gpu.shared": "16"}, {}, ("nvidia.com/gpu.shared", 16, 2)),
    "no longer renamed": ({"gpu": "16", "gpu.shared": "0"}, {}, ("nvidia.com/gpu", 16, 2)),
    "away": ({"gpu": "0"}, {"gpu": "16"}, ("nvidia.com/gpu", 0, 2)),
    "away, renamed": ({"gpu": "0", "gpu.shared": "0"}, {"gpu.shared": "16"}, ("nvidia.com/gpu.shared", 0, 2)),
    "away for long": ({"gpu": "0"}, {"gpu": "0"}, ("nvidia.com/gpu", 0, 2)),
    "per GPU": ({"gpu": "0", "gpu-0": "8"}, {"gpu": "0", "gpu-0": "8"}, ("", 0, 0)),
    "MIG": ({"gpu": "0", "mig-1g.10gb": "7"}, {"gpu": "0"}, ("", 0, 0)),
    "none": ({}, {}, ("", 0, 0)),
}


@pytest.mark.parametrize(("allocatable", "capacity", "found"), POOLS.values(), ids=POOLS)
def test_a_pool_has_the_name_with_most_slices_also_while_its_device_plugin_is_away(
    allocatable: dict[str, str], capacity: dict[str, str], found: tuple[str, int, int]
) -> None:
    status = {
        kind: {f"nvidia.com/{name}": amount for name, amount in amounts.items()}
        for kind, amounts in (("allocatable", allocatable), ("capacity", capacity or allocatable))
    }
    labels = {"nvidia.com/gpu.replicas": "8", "nvidia.com/gpu.count": "2"}
    fact = node_from_object(node(metadata={"name": "n", "labels": labels}, status=status), NAMES)
    assert (fact.pool, fact.pooled, fact.pooled_gpus) == found


@pytest.mark.parametrize(
    ("text", "indices"), [("0,3", {0, 3}), (" 1 , 2 ", {1, 2}), ("", set()), ("x,4,-1,9999,5a", {4})]
)
def test_a_cordon_names_indices_and_what_is_no_index_is_passed_over(text: str, indices: set[int]) -> None:
    annotated = node(metadata={"name": "n", "annotations": {"clearml-injector/cordon": text}})
    assert node_from_object(annotated, NAMES).cordoned == indices


@pytest.mark.parametrize(
    ("others", "profiles"),
    [
        ({}, ["1g.10gb"]),
        ({"nvidia.com/gpu-0": "0", "nvidia.com/gpu": "0"}, ["1g.10gb"]),
        ({"nvidia.com/gpu-0": "8"}, []),
        ({"nvidia.com/gpu": "4"}, []),
        ({"nvidia.com/mig-2g.20gb": "3"}, ["2g.20gb"]),
    ],
    ids=["device plugin away", "away with all", "no longer divided", "no longer divided, pooled", "other"],
)
def test_profiles_that_a_node_no_longer_has_count_only_while_its_device_plugin_is_away(
    others: dict[str, str], profiles: list[str]
) -> None:
    found = node(status={"allocatable": {"nvidia.com/mig-1g.10gb": "0", **others}})
    assert [
        profile_of_number(number).name for number, _ in node_from_object(found, NAMES).instances
    ] == profiles


def test_a_running_pod_is_read() -> None:
    fact = pod({"nodeName": "gpu-0"}, annotations={"x": "y"})
    assert fact == PodFact(
        namespace="ml",
        name="p",
        node="gpu-0",
        takes=((3, 4),),
        cpu_milli=2000,
        queues=("q",),
        owner=owner_key("ml", None, None, ("q",)),
    )


def test_a_waiting_pod_tells_its_reservation_the_node_promised_and_the_memory_required() -> None:
    preferred = [
        {
            "weight": weight,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
        }
        for weight, name in ((1, "x"), (100, "n"))
    ]
    affinity = requiring("81920", "81559")
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    fact = pod({"affinity": affinity}, annotations={"clearml-injector/reservation": "r"})
    assert (fact.reservation, fact.promised_node) == ("r", "n")
    assert pod(annotations={"clearml-injector/reservation": "r" * 2**18}).reservation is None
    assert fact.memory_values == ("81920", "81559")
    failed = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    assert pod({"affinity": affinity}, status=failed).promised_node is None
    assert pod({"affinity": affinity, "nodeName": "m"}).promised_node is None
    name = f"gpu-fraction-whole-{0:016x}"
    claims = {"resourceClaims": [{"name": "gpu-fraction", "resourceClaimTemplateName": name}]}
    assert [pod(claims, status=status).is_refused for status in ({}, failed)] == [False, True]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([str(mib) for mib in range(1, MAX_MEMORY_VALUES + 1)], MAX_MEMORY_VALUES),
        ([str(mib) for mib in range(1, MAX_MEMORY_VALUES + 2)], None),
        (["81920", "9" * 5000, "no label", "81559"], 2),
        ([], 0),
    ],
)
def test_only_so_many_values_of_memory_are_kept_and_only_those_of_labels(values, expected) -> None:
    found = pod({"affinity": requiring(*values)}).memory_values
    assert (None if found is None else len(found)) == expected


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending", "Unknown"])
def test_a_pod_is_over_by_its_phase(phase) -> None:
    assert pod(status={"phase": phase}).is_over is (phase in {"Succeeded", "Failed"})


def test_a_pod_with_thousands_of_claims_is_small_and_does_not_count_less() -> None:
    asked = "gpu-fraction-1of8-x2-m81920"
    claims = [
        {"name": str(number), "resourceClaimTemplateName": f"{asked}-{number:016x}"} for number in range(5000)
    ]
    fact = pod({"resourceClaims": claims})
    assert len(fact.claimed) == MAX_CLAIMED + 1
    assert fact.counted_slices - fact.slices == 2 * MAX_CLAIMED + 8 * MAX_PARTS * (5000 - MAX_CLAIMED)
    unlike = [claim | {"resourceClaimTemplateName": "other"} for claim in claims]
    assert pod({"resourceClaims": unlike}).claimed == ()
    assert len(pod({"resourceClaims": claims[:MAX_CLAIMED]}).claimed) == MAX_CLAIMED
