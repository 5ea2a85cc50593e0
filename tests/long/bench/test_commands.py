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
    "bench.webhook_with_controller": ["--rounds", "1", "--seconds", "1"],
    "bench.rotation": ["--swaps", "5"],
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
    "bench.webhook_with_controller": {
        "c=64: asking a controller": ">= 0.35",
        "placed without the controller": "<= 0",
    },
    "bench.rotation": {"failed handshakes in 5 swaps": "<= 0"},
}


@pytest.mark.parametrize("module", TINY)
def test_a_bench_prints_a_table_and_writes_its_figures(module: str, tmp_path: Path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", module, *TINY[module], "--json", str(file)]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(file.read_text())["figures"]
    assert {figure["figure"]: figure["bar"] for figure in figures if figure["bar"]} == BARS[module]
    assert all(figure["rounds"] == len(figure["value"]["each"]) for figure in figures)
    assert figures[0]["figure"] in ended.stdout
