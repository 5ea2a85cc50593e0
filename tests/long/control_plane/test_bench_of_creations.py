"""`python -m bench.api_server` on a control plane of its own, at a size too small to mean anything."""

import json
import subprocess
import sys
from pathlib import Path

from bench.processes import CHECKOUT


def test_pods_are_created_with_the_webhook_and_without(built: Path, tmp_path: Path):
    file = tmp_path / "api-server.json"
    options = ["--rounds", "2", "--pods", "3", "--idle", "0.1", "--json", str(file)]
    command = [sys.executable, "-m", "bench.api_server", *options]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = {figure["figure"]: figure for figure in json.loads(file.read_text())["figures"]}
    assert list(figures) == [
        "webhook at rest, 8 nodes: CPU",
        "webhook at rest, 8 nodes: RSS",
        "controller at rest, 8 nodes: CPU",
        "controller at rest, 8 nodes: RSS",
        "create p50: labelled, webhook called",
        "create p50: no label",
        "create p99: labelled, webhook called",
        "create p99: no label",
        "added to the p50 by the webhook",
        "mean wait of the API server for the webhook",
        "mean of a review in the webhook, asking included",
        "placed without the controller",
    ]
    created = figures["create p50: labelled, webhook called"]
    assert created["reference"]["name"] == "the same, namespace left out"
    assert created["rounds"] == 2
    assert figures["placed without the controller"]["met"] is True
