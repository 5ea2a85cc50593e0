"""The tree is as docs/architecture.md says: one word has one meaning, and rooms export modules alone."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ["agent", "certs", "cli", "controller", "kube", "ledger", "modes", "policies", "service", "webhook"]
OF_KUBERNETES = {"Affinity", "Condition", "Container", "NodeAffinity", "Pod", "PodSpec"}
"""Kubernetes' own words: each reader decodes the fields that it needs."""


def modules():
    files = [file for name in PRODUCT for file in (ROOT / name).rglob("*.py") if "_pb2" not in file.name]
    return {file: ast.parse(file.read_text()) for file in files}


def test_one_word_names_one_class():
    found = defaultdict(list)
    for file, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(ROOT)))
    assert len(found) > 300
    assert {
        name: files for name, files in found.items() if len(files) > 1 and name not in OF_KUBERNETES
    } == {}


def test_the_image_holds_every_package_of_the_product():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    copied = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert len(packages) > 5
    assert set(packages) <= copied
