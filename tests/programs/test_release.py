"""What a release is made of, by the programs that know: the workflows and the bill of materials."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
(ACTIONLINT,) = re.findall(r"^ACTIONLINT := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)", re.MULTILINE)


def test_the_workflows_pass_actionlint(tmp_path):
    command = ["go", "run", ACTIONLINT, *map(str, WORKFLOWS.glob("*.yml"))]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_bill_of_materials_lists_every_locked_package(tmp_path):
    lock = ROOT / "requirements" / "runtime.txt"
    file = tmp_path / "sbom.json"
    tool = Path(sys.executable).with_name("cyclonedx-py")
    options = ["requirements", "--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(file)]
    subprocess.run([str(tool), *options, str(lock)], cwd=ROOT, check=True, capture_output=True)
    found = json.loads(file.read_text())
    assert found["bomFormat"] == "CycloneDX"
    assert found["metadata"]["component"]["name"] == "gpu-fraction-injector"
    listed = {(part["name"], part["version"]) for part in found["components"]}
    locked = set(LOCKED.findall(lock.read_text()))
    assert len(locked) > 20
    assert listed == locked
