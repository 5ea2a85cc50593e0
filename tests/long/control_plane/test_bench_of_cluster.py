"""`python -m bench.cluster` on a control plane of its own, at a size too small to mean anything."""

import json
import subprocess
import sys
from pathlib import Path

from bench.processes import CHECKOUT


def test_pods_are_created_with_the_webhook_and_without_and_in_bursts(built: Path, tmp_path: Path):
    file = tmp_path / "cluster.json"
    options = ["--rounds", "2", "--pods", "16", "--created", "20", "--json", str(file)]
    command = [sys.executable, "-m", "bench.cluster", *options]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = {figure["figure"]: figure for figure in json.loads(file.read_text())["figures"]}
    assert {name: figure["bar"] for name, figure in figures.items()} == {
        "added to the p99 of a creation, 50 a second": "<= 5",
        "added to the p50 of a creation, 50 a second": None,
        "16 pods at once in mode dra, until each has a node": ">= 0.9",
        "16 pods at once in mode dra, CPU of ours for a pod": "<= 0.1",
    }
