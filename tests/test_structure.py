"""The tree is as docs/internals/architecture.md says: one word, one meaning; packages export only modules."""

import ast
from collections import defaultdict

from tests.product import PACKAGES, PYPROJECT, ROOT, modules

DEVELOPMENT = {"bench", "testbed", "tests"}
"""Packages that are no part of the product."""
OF_KUBERNETES = {"Affinity", "Condition", "Container", "NodeAffinity", "Pod", "PodSpec"}
"""Kubernetes' own words: each reader decodes the fields that it needs."""


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
    copied = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert len(PACKAGES) > 10
    assert set(PACKAGES) <= copied


def test_types_layers_and_the_wheel_are_of_the_same_packages():
    assert tuple(PYPROJECT["mypy"]["packages"]) == PACKAGES
    assert tuple(PYPROJECT["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES
    assert {file.parent.name for file in ROOT.glob("*/__init__.py")} - set(PACKAGES) == DEVELOPMENT


def test_a_package_says_what_it_is_and_exports_only_names_that_others_import():
    trees = modules()
    imported = {
        (node.module, name.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    packages = {file: tree for file, tree in trees.items() if file.name == "__init__.py"}
    assert len(packages) > 15
    for file, tree in packages.items():
        package = ".".join(file.parent.relative_to(ROOT).parts)
        assert ast.get_docstring(tree), f"{package} does not say what it holds"
        names = set()
        for node in tree.body:
            if isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names |= {name.asname or name.name for name in node.names}
        unused = {
            name for name in names if name not in {"__all__", "PUBLIC"} and (package, name) not in imported
        }
        assert not unused, f"nobody imports {unused} from {package}: import from the module itself"


def test_no_module_imports_a_private_name_of_another():
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {name.name}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for name in node.names
        if name.name.startswith("_")
    ]
    assert found == []
