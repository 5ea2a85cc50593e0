"""The packages of the product and their modules, read as text."""

import ast
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
PACKAGES = tuple(PYPROJECT["importlinter"]["root_packages"])
"""Names of the top-level packages."""


def files(*packages):
    """The modules of packages, of all by default; what protoc makes is left out."""
    return [
        file
        for name in packages or PACKAGES
        for file in (ROOT / name).rglob("*.py")
        if "_pb2" not in file.name
    ]


@cache
def modules(package):
    """The parsed modules of a package by file."""
    return {file: ast.parse(file.read_text()) for file in files(package)}


def all_modules():
    return {file: tree for package in PACKAGES for file, tree in modules(package).items()}


def name_of(file):
    """The dotted name of a module or package."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree, known):
    """Names of the modules of ours that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                full = f"{node.module}.{each.name}"
                if full in known or node.module in known:
                    yield full if full in known else node.module
