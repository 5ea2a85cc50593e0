"""Every request in every mode on every kind of card, as `explain` prints it: slices, MiB, index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import as_yaml, invoke
from tests.request_table import (
    CARDS,
    MIG_POLICY,
    POLICY,
    InstanceRequest,
    Request,
    every_instance_request,
    every_request,
    instance_nodes,
)
from tests.webhook.support import container, pod
from tests.webhook.support.gpu_pods import CONTAINERS, GPUS, MEMORY

pytestmark = pytest.mark.slow


def node(kind: str, mode: str) -> dict[str, Any]:
    slices = (
        {"nvidia.com/gpu-0": "8", "nvidia.com/gpu-1": "8"} if mode == "per-gpu" else {"nvidia.com/gpu": "16"}
    )
    amounts = {"cpu": "64", "memory": "256Gi", **slices}
    labels = {
        "nvidia.com/gpu.memory": str(CARDS[kind]),
        "nvidia.com/gpu.product": kind,
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "8",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{kind.lower()}", "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": amounts,
            "allocatable": amounts,
        },
    }


def mig_node(product: str, instances: dict[str, int]) -> dict[str, Any]:
    made = node("A100-80", "per-gpu")
    made["metadata"]["labels"] = {"nvidia.com/gpu.product": product}
    amounts = {name: str(count) for name, count in instances.items()}
    made["status"]["allocatable"] = {"cpu": "64", "memory": "256Gi", **amounts}
    return made


def explained(tmp_path: Path, mode: str, kinds: list[str], request: Request) -> dict[str, Any]:
    policy = POLICY.replace("MODE", mode).replace("NAME", "default")
    return explained_on(tmp_path, policy, [node(kind, mode) for kind in kinds], request)


def explained_on(
    tmp_path: Path, policy: str, nodes: list[dict[str, Any]], request: Request | InstanceRequest
) -> dict[str, Any]:
    rules, inventory = tmp_path / "policies", tmp_path / "inventory.json"
    rules.mkdir()
    (rules / "default.yaml").write_text(policy)
    inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    annotations = dict(request.annotations)
    made = [container("train"), container("eval")] if CONTAINERS in annotations else None
    found = pod(fraction=None, labels=dict([request.label]), containers=made)
    if annotations:
        found["metadata"]["annotations"] = annotations
    options = ("--policies", rules, "--inventory", inventory, "--output", "json")
    result = invoke("-", *options, text=as_yaml(found))
    facts: dict[str, Any] = json.loads(result.stdout)[0]
    assert result.exit_code == (0 if facts["allowed"] else 1)
    return facts


@pytest.mark.parametrize("wanted", list(every_request()), ids=str)
def test_every_request(tmp_path: Path, wanted: Request) -> None:
    facts = explained(tmp_path, wanted.mode, [wanted.kind], wanted)
    if wanted.row is None:
        assert not facts["allowed"]
        assert 0 < len(facts["message"]) <= 200
        assert "\n" not in facts["message"]
        if wanted.mode == "pooled" and GPUS in dict(wanted.annotations):
            assert facts["code"] == "gpus-not-allowed"
        return
    slices, mib = wanted.row
    annotations = facts["pod"]["metadata"]["annotations"]
    assert facts["slices"] == slices
    assert annotations.get("clearml-injector/memory-mib") == (None if mib is None else str(mib))
    if mib is None or isinstance(mib, int):
        assert facts["memoryMiB"] == mib
    else:
        assert facts["memoryMiB"] == sum(map(int, mib.split(",")))
    is_list = mib is None or wanted.gpus > 1
    assert facts["index"] == (wanted.indices if is_list else next(iter(wanted.indices), None))


@pytest.mark.parametrize("wanted", list(every_instance_request()), ids=str)
def test_every_request_in_mode_mig(tmp_path: Path, wanted: InstanceRequest) -> None:
    offered = dict(instance_nodes())
    nodes = [mig_node(wanted.product, offered[wanted.product])]
    facts = explained_on(tmp_path, MIG_POLICY.replace("NAME", "default"), nodes, wanted)
    assert facts["profile"] == wanted.profile
    assert facts["slices"] == wanted.eighths
    if wanted.profile is None:
        assert not facts["allowed"]
        assert 0 < len(facts["message"]) <= 200
        assert "\n" not in facts["message"]
        return
    (task,) = facts["pod"]["spec"]["containers"]
    assert task["resources"]["limits"] == {wanted.resource: "1"}
    assert facts["index"] is None
    assert "clearml-injector/memory-mib" not in facts["pod"]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("mode", "asked", "row"),
    [
        ("per-gpu", "4Gi", (1, 4096)),
        ("per-gpu", "15000Mi", (2, 15000)),
        ("per-gpu", "20Gi", (2, 20480)),
        ("per-gpu", "41Gi", (5, 41984)),
        ("pooled", "4Gi", (2, 4096)),
        ("pooled", "15000Mi", (3, 15000)),
        ("pooled", "20Gi", (4, 20480)),
        ("pooled", "41Gi", (5, 41984)),
    ],
)
def test_among_all_kinds_memory_goes_where_it_costs_expected_pods_least(
    tmp_path: Path, mode: str, asked: str, row: tuple[int, int]
) -> None:
    """With nothing learnt: fewest slices of a card; in a pool, whose cards are unknown, the least MiB."""
    request = Request(mode, "any", (MEMORY, asked), (), row)
    facts = explained(tmp_path, mode, list(CARDS), request)
    assert (facts["slices"], facts["memoryMiB"]) == row
