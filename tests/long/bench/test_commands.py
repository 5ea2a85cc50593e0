"""Benches from their command line, at sizes too small to mean anything: each writes what it prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import CHECKOUT

TINY = {
    "bench.controller_loop": ["--nodes=40", "--pods=300", "--waiting=10", "--seconds=1"],
    "bench.large_objects": ["--pods=4"],
    "bench.packing.regimes": ["--only=equal nodes, Philly, churn", "--seeds=1"],
    "bench.packing.waits": ["--seeds=1", "--lives=4"],
    "bench.webhook": ["--rounds=1", "--seconds=1", "--starts=1", "--requests=100"],
    "bench.rotation": ["--swaps", "5"],
}


@pytest.mark.parametrize("module", TINY)
def test_a_bench_prints_a_table_and_writes_its_figures(module: str, tmp_path: Path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", module, *TINY[module], "--json", str(file)]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(file.read_text())["figures"]
    assert any(figure["bar"] for figure in figures)
    assert all(figure["rounds"] == len(figure["value"]["each"]) for figure in figures)
    assert figures[0]["figure"] in ended.stdout
