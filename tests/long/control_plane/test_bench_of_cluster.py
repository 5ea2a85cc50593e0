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
    figures = json.loads(file.read_text())["figures"]
    assert [figure["bar"] for figure in figures] == ["<= 5", None, ">= 0.9", "<= 0.1"]
