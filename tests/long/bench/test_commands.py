"""Benches from their command line, at sizes too small to mean anything: each writes what it prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import CHECKOUT

TINY = {
    "bench.controller_loop": ["--nodes=40", "--pods=300", "--waiting=10", "--seconds=1"],
    "bench.packing": ["--seeds", "1"],
    "bench.packing.degraded": ["--seeds", "1"],
    "bench.webhook_with_controller": ["--rounds", "1", "--seconds", "1"],
    "bench.rotation": ["--swaps", "5"],
    "bench.quota_line": ["--pods=50", "--rounds=1", "--seconds=1"],
    "bench.starved": ["--seconds", "1"],
}
BARS = {
    "bench.controller_loop": {
        "longest step: the first list": "<= 25",
        "longest step: publishing and telling under load": "<= 25",
        "longest step: another list under load": "<= 25",
    },
    "bench.packing": {
        "synthetic: ours less FGD, mean": ">= 0",
        "synthetic: ours less FGD, worst of 1 orders": ">= 0",
    },
    "bench.packing.degraded": {
        f"{nodes} nodes, {used}% used before, webhooks: 1": "<= 1.05"
        for nodes in (4, 16)
        for used in (30, 50, 60)
    },
    "bench.webhook_with_controller": {
        "c=64: asking a controller": ">= 0.35",
        "placed without the controller": "<= 0",
    },
    "bench.rotation": {"failed handshakes in 5 swaps": "<= 0"},
    "bench.quota_line": {"controller, 50 pods wait, less 10 pods": "<= 5"},
    "bench.starved": {
        "controller with 10 % of a core: placed without the controller": "<= 0",
        "controller with 10 % of a core: longest review": "<= 5",
        "controller with 3 % of a core: placed without the controller": "<= 0",
        "controller with 3 % of a core: longest review": "<= 5",
        "webhook with 10 % of a core: placed without the controller": "<= 0",
        "webhook with 10 % of a core: longest review": "<= 5",
        "webhook with 5 % of a core: placed without the controller": "<= 0",
        "webhook with 5 % of a core: longest review": "<= 5",
        "both with 10 % of a core: placed without the controller": "<= 0",
        "both with 10 % of a core: longest review": "<= 5",
        "stopped controller: longest review": "<= 5",
    },
}


@pytest.mark.parametrize("module", TINY)
def test_a_bench_prints_a_table_and_writes_its_figures(module: str, tmp_path: Path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", module, *TINY[module], "--json", str(file)]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if "CPU quotas need root" in ended.stderr:
        pytest.skip("this bench sets CPU quotas, which needs root and writable cgroups")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(file.read_text())["figures"]
    assert {figure["figure"]: figure["bar"] for figure in figures if figure["bar"]} == BARS[module]
    assert all(figure["rounds"] == len(figure["value"]["each"]) for figure in figures)
    assert figures[0]["figure"] in ended.stdout
