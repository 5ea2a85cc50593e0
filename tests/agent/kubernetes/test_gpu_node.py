"""The GpuNode of a node: all that is written is in its schema, and it is bounded."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.gpu import Gpu
from agent.kubernetes.gpu_node import (
    MAX_GPUS,
    MAX_NUMA_NODE,
    MAX_REASON,
    MAX_TEXT,
    MAX_UNLIMITED,
    MAX_USES,
    NodeReport,
    manifest,
)
from agent.state import HELD, Held, Unlimited
from controller.watch.gpu_node import report_from_object, with_report
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.placement.cards import layout
from modes.fraction import Fraction
from tests.agent.support.node import card, node_folder
from tests.ledger.cluster import gpu_node, ledger_of, request_of

CRD = Path(__file__).parents[3] / "charts" / "fraction-injector" / "files" / "crds" / "gpunodes.yaml"
SMALL = Gpu(0, "GPU-a", "NVIDIA A100-40GB", 40960)
MIG = Gpu(1, "GPU-b", "NVIDIA A100-80GB", 81920, mig=True)


def status(gpus=(SMALL, MIG), unhealthy=None, missing=None):
    return manifest(
        "gpu-1", "uid-1", gpus, NodeReport(unhealthy or {}, missing, "boot-1", {"GPU-a": Held(5, 2)})
    )["status"]


@pytest.mark.parametrize(
    ("memory", "reserved"), [(40960, 583), (16384, 450), (81559, 600), (81920, 1024), (6144, 300)]
)
def test_a_card_is_what_its_label_says_whatever_the_driver_keeps_of_it(memory, reserved):
    """GPU feature discovery writes all of the memory into the label, and placing compares the two."""
    gpu = Gpu(0, "GPU-a", "NVIDIA A100-40GB", memory, reserved_mib=reserved)
    reported = manifest("gpu-1", "uid-1", [gpu], NodeReport({}, None, "boot-1"))
    labels = {GPU_MEMORY_LABEL: str(memory), GPU_PRODUCT_LABEL: "NVIDIA-A100-40GB"}
    node = with_report(gpu_node("gpu-1", 1, memory, labels=labels), report_from_object(reported), "serving")
    assert node.cards == ((0, memory),)
    assert layout(node) is None


def test_only_whole_gpus_are_marked_as_whole_so_that_an_older_schema_accepts_the_object():
    report = NodeReport({}, None, "", whole={"GPU-b"})
    reported = manifest("n", "uid", [SMALL, MIG], report)["status"]["gpus"]
    assert [each.get("whole") for each in reported] == [None, True]


def test_every_gpu_is_listed_with_its_memory_and_whether_it_is_in_mig_mode():
    reported = status()
    assert [(gpu["index"], gpu["memoryMiB"], gpu["mig"]) for gpu in reported["gpus"]] == [
        (0, 40960, False),
        (1, 81920, True),
    ]
    assert (reported["gpuCount"], reported["unhealthy"], reported["registered"]) == (2, 0, True)
    assert reported["bootID"] == "boot-1"
    assert [(of.get("heldSlices"), of.get("heldPods")) for of in reported["gpus"]] == [(5, 2), (None, None)]


def test_an_unhealthy_gpu_and_a_missing_registration_are_listed_with_the_reason():
    reported = status(unhealthy={"GPU-a": "Xid 79"}, missing="no library")
    assert reported["unhealthy"] == 1
    assert (reported["gpus"][0]["healthy"], reported["gpus"][0]["why"]) == (False, "Xid 79")
    assert (reported["registered"], reported["missing"]) == (False, "no library")


def test_the_schema_knows_every_field_that_is_written():
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["status"]["properties"]
    held = {"GPU-a": Held(5, 2)}
    report = NodeReport({"GPU-a": "Xid 79"}, "no library", "boot-1", held, {"GPU-a"}, [unlimited("a")], HELD)
    report = replace(report, uses=[use("a", idle_since=0)], uses_measured=60, offer="dra")
    reported = manifest("gpu-1", "uid-1", [replace(SMALL, numa_node=1)], report)["status"]
    assert reported.keys() == known.keys()
    assert reported["gpus"][0].keys() == known["gpus"]["items"]["properties"].keys()
    containers = known["unlimited"]["properties"]["containers"]["items"]["properties"]
    assert reported["unlimited"].keys() == known["unlimited"]["properties"].keys()
    assert reported["unlimited"]["containers"][0].keys() == containers.keys()
    containers = known["usage"]["properties"]["containers"]["items"]["properties"]
    assert reported["usage"].keys() == known["usage"]["properties"].keys()
    assert reported["usage"]["containers"][0].keys() == containers.keys()
    assert known["usage"]["properties"]["containers"]["maxItems"] == MAX_USES


def unlimited(pod):
    return Unlimited("team", pod, "uid", "main", "c" * 64, 0, 5120)


def use(pod, **more):
    return replace(ContainerUse(ContainerName("team", pod, "main"), 0, 5120, 100, 300, 200, 7, 0), **more)


def test_what_containers_use_is_counted_and_the_first_are_named():
    found = [use(f"pod-{number:03}") for number in reversed(range(MAX_USES + 1))]
    reported = manifest("n", "uid", [SMALL], NodeReport({}, None, "", uses=found))["status"]["usage"]
    assert (reported["count"], len(reported["containers"])) == (MAX_USES + 1, MAX_USES)
    assert reported["containers"][0] == {
        "namespace": "team",
        "pod": "pod-000",
        "container": "main",
        "gpu": 0,
        "memoryMiB": 5120,
        "usedMiB": 100,
        "peakMiB": 300,
        "p95MiB": 200,
        "busyPercent": 7,
        "since": "1970-01-01T00:00:00Z",
    }


def test_a_time_that_the_driver_does_not_report_is_not_written():
    reported = manifest("n", "uid", [SMALL], NodeReport({}, None, "", uses=[use("a", busy_percent=None)]))
    assert "busyPercent" not in reported["status"]["usage"]["containers"][0]


def test_a_report_says_when_it_was_measured_and_since_when_a_container_is_idle():
    found = NodeReport({}, None, "", uses=[use("a", idle_since=60), use("b")], uses_measured=180)
    reported = manifest("n", "uid", [SMALL], found)["status"]["usage"]
    assert reported["measured"] == "1970-01-01T00:03:00Z"
    assert [each.get("idleSince") for each in reported["containers"]] == ["1970-01-01T00:01:00Z", None]


def test_what_runs_without_its_limiter_is_counted_and_the_first_are_named():
    found = [unlimited(f"pod-{number:03}") for number in reversed(range(100))]
    reported = manifest("n", "uid", [SMALL], NodeReport({}, None, "", unlimited=found))["status"]["unlimited"]
    assert reported["count"] == 100
    names = [f"pod-{number:03}" for number in range(MAX_UNLIMITED)]
    assert [each["pod"] for each in reported["containers"]] == names
    assert reported["containers"][0] == {
        "namespace": "team",
        "pod": "pod-000",
        "container": "main",
        "gpu": 0,
        "memoryMiB": 5120,
    }


def test_what_was_not_searched_or_requested_is_not_reported():
    assert not {"unlimited", "driverLimits", "usage"} & status().keys()
    reported = manifest("n", "uid", [SMALL], NodeReport({}, None, "", unlimited=(), driver_limits="x" * 999))
    assert reported["status"]["unlimited"] == {"count": 0, "containers": []}
    assert reported["status"]["driverLimits"] == "x" * MAX_REASON


def test_how_the_gpus_are_offered_is_reported_where_it_is_not_by_a_device_plugin():
    assert "offer" not in status()
    assert manifest("n", "uid", [SMALL], NodeReport({}, None, "", offer="dra"))["status"]["offer"] == "dra"


def test_the_reserved_memory_of_a_card_is_reported():
    reported = status([replace(SMALL, reserved_mib=583)])
    assert reported["gpus"][0]["reservedMiB"] == 583


def test_numa_nodes_are_reported_if_the_kernel_and_the_schema_know_them():
    gpus = [
        replace(SMALL, index=at, numa_node=node) for at, node in enumerate((0, None, MAX_NUMA_NODE, 1024))
    ]
    assert [gpu.get("numaNode") for gpu in status(gpus)["gpus"]] == [0, None, MAX_NUMA_NODE, None]


def test_what_the_kernel_says_of_numa_nodes_decides_which_gpus_a_pod_of_two_gets():
    """From NVML and the kernel's folder of PCI devices to the placement."""
    cards = [card(index) for index in range(4)]
    with node_folder() as node:
        node.write_gpus(*cards)
        for each, numa in zip(cards, (0, 1, 1, 0), strict=True):
            node.write_numa_node(each, numa)
        driver = node.open_driver()
        gpus = driver.list_gpus()
        driver.close()
    reported = report_from_object(manifest("gpu-1", "uid-1", gpus, NodeReport({}, None, "")))
    fact = with_report(gpu_node("gpu-1", 4, 40960), reported, "serving")
    answer = ledger_of(fact).place(request_of(Fraction(8, 8, 2)), 0.0)
    assert answer.indices == (0, 3)


def test_texts_and_lists_are_as_short_as_the_schema_wants_them():
    reported = status([SMALL] * 100, {"GPU-a": "x" * 5000}, "y" * 5000)
    assert len(reported["gpus"]) == reported["gpuCount"] == MAX_GPUS
    assert len(reported["gpus"][0]["why"]) == len(reported["missing"]) == MAX_TEXT


def test_the_node_owns_it():
    [owner] = manifest("gpu-1", "uid-1", [SMALL], NodeReport({}, None, ""))["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "gpu-1", "uid": "uid-1"}
