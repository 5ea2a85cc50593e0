"""Every request in every mode on every kind of card, as `explain` prints it: slices, MiB, index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import as_yaml, invoke
from tests.webhook.support import pod

pytestmark = pytest.mark.slow

CARDS = {"T4": 16384, "A10": 23028, "A100-40": 40960, "A100-80": 81920}
FRACTIONS = '{"0.125": 1, "0.2": 2, "0.500": 4, "0.875": 7, "1.000": 8, "2.000": 16}'
POLICY = f"""kind: Policy
name: default
resources: {{mode: MODE}}
memory: {{allowed: true}}
fractions: {FRACTIONS}
"""
DENIED = None
GPUS = "clearml-injector/gpus"
FRACTION, MEMORY = "clearml-injector/fraction", "clearml-injector/gpu-memory"
Row = tuple[int, int | None] | None
"""Slices in all, and MiB of each GPU; None of MiB where nothing is limited."""

# By kind of card, in the order of CARDS. MiB are rounded down: an eighth of the A10 is 2878.5.
ONE_GPU: dict[tuple[str, str], list[Row]] = {
    (FRACTION, "0.125"): [(1, 2048), (1, 2878), (1, 5120), (1, 10240)],
    (FRACTION, "0.2"): [(2, 3276), (2, 4605), (2, 8192), (2, 16384)],
    (FRACTION, "0.500"): [(4, 8192), (4, 11514), (4, 20480), (4, 40960)],
    (FRACTION, "0.875"): [(7, 14336), (7, 20149), (7, 35840), (7, 71680)],
    (MEMORY, "4Gi"): [(2, 4096), (2, 4096), (1, 4096), (1, 4096)],
    (MEMORY, "15000Mi"): [(8, 15000), (6, 15000), (3, 15000), (2, 15000)],
    (MEMORY, "20Gi"): [DENIED, (8, 20480), (4, 20480), (2, 20480)],
    (MEMORY, "80Gi"): [DENIED, DENIED, DENIED, (8, 81920)],
    (FRACTION, "0.250"): [DENIED] * 4,
    (MEMORY, "4G"): [DENIED] * 4,
    (FRACTION, "1.000"): [(8, None)] * 4,
}
TWO_GPUS: dict[tuple[str, str], list[Row]] = {
    (FRACTION, "0.125"): [(2, 2048), (2, 2878), (2, 5120), (2, 10240)],
    (FRACTION, "0.500"): [(8, 8192), (8, 11514), (8, 20480), (8, 40960)],
    (MEMORY, "4Gi"): [(4, 4096), (4, 4096), (2, 4096), (2, 4096)],
    (MEMORY, "20Gi"): [DENIED, (16, 20480), (8, 20480), (4, 20480)],
    (FRACTION, "1.000"): [DENIED] * 4,
}
ROWS = [
    (request, kind, row) for request, rows in ONE_GPU.items() for kind, row in zip(CARDS, rows, strict=True)
]
ROWS_OF_TWO = [
    (request, kind, row) for request, rows in TWO_GPUS.items() for kind, row in zip(CARDS, rows, strict=True)
]


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


def explained(
    tmp_path: Path, mode: str, kinds: list[str], request: tuple[str, str], gpus: str | None = None
) -> dict[str, Any]:
    rules, inventory = tmp_path / "policies", tmp_path / "inventory.json"
    rules.mkdir()
    (rules / "default.yaml").write_text(POLICY.replace("MODE", mode))
    nodes = [node(kind, mode) for kind in kinds]
    inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    found = pod(fraction=None, labels=dict([request]))
    if gpus is not None:
        found["metadata"]["annotations"] = {GPUS: gpus}
    options = ("--policies", rules, "--inventory", inventory, "--output", "json")
    result = invoke("-", *options, text=as_yaml(found))
    facts: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (0 if facts["allowed"] else 1)
    return facts


def shown(facts: dict[str, Any]) -> tuple[Row, Any]:
    if not facts["allowed"]:
        assert 0 < len(facts["message"]) <= 200
        assert "\n" not in facts["message"]
        return DENIED, None
    return (facts["slices"], facts["memoryMiB"]), facts["index"]


@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
@pytest.mark.parametrize(("request_", "kind", "row"), ROWS)
def test_a_share_of_one_gpu(
    tmp_path: Path, mode: str, request_: tuple[str, str], kind: str, row: Row
) -> None:
    index: Any = None
    if row is not None:
        whole = row[1] is None
        index = ([0] if whole else 0) if mode == "per-gpu" else ([] if whole else None)
    assert shown(explained(tmp_path, mode, [kind], request_)) == (row, index)


@pytest.mark.parametrize(("request_", "kind", "row"), ROWS_OF_TWO)
def test_a_share_of_each_of_two_gpus(tmp_path: Path, request_: tuple[str, str], kind: str, row: Row) -> None:
    index = [0, 1] if row is not None else None
    assert shown(explained(tmp_path, "per-gpu", [kind], request_, "2")) == (row, index)


@pytest.mark.parametrize("request_", TWO_GPUS)
def test_in_mode_pooled_no_pod_has_shares_of_two_gpus(tmp_path: Path, request_: tuple[str, str]) -> None:
    assert explained(tmp_path, "pooled", ["A100-80"], request_, "2")["code"] == "gpus-not-allowed"


def test_two_whole_gpus_have_both_indices(tmp_path: Path) -> None:
    facts = explained(tmp_path, "per-gpu", ["A100-80"], (FRACTION, "2.000"))
    assert shown(facts) == ((16, None), [0, 1])


@pytest.mark.parametrize(
    ("asked", "row"),
    [("4Gi", (2, 4096)), ("15000Mi", (3, 15000)), ("20Gi", (4, 20480)), ("41Gi", (5, 41984))],
)
@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
def test_among_all_kinds_memory_goes_where_least_is_held_in_vain(
    tmp_path: Path, mode: str, asked: str, row: Row
) -> None:
    """A pod of 15000 MiB takes 15360 of a card of 40 GiB, and not 17271 of one of 22."""
    assert shown(explained(tmp_path, mode, list(CARDS), (MEMORY, asked)))[0] == row
