"""Runs a folder's fixtures where there is no Go, for the tests that say what happens then."""

import os
import subprocess
import sys
from pathlib import Path

REASON = "the control plane is built with Go 1.26 or newer, and there is no `go` on PATH"


def run_without_go(
    folder: Path, checkout: Path, conftest: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a test that passes, with the fixtures of the module `conftest`, where there is no Go."""
    (folder / "test_run.py").write_text("def test_passes(): pass")
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    kept |= {"PATH": str(folder), "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-m", "pytest", "-p", conftest, "--rootdir=.", "-rs", "test_run.py"]
    return subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False
    )
