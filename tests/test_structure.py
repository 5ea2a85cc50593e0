"""The tree is as docs/internals/architecture.md says: one word, one meaning; packages export only modules.

`__init__` of a package names the modules that other packages import, and these import no others.
Modules are named, not their contents: an `__init__` that imported them all would load the Kubernetes client
for a command that prints help, and YAML into the agent. Tests, benches and the testbed look inside.
"""

import ast
import functools
import re
from collections import defaultdict

import pytest

from tests.product import PACKAGES, PYPROJECT, ROOT, all_modules, files, imports_of, modules, name_of

DEVELOPMENT = {"bench", "testbed", "tests"}
"""Packages that are no part of the product."""
OF_KUBERNETES = {"Affinity", "Condition", "Container", "NodeAffinity", "Pod", "PodSpec"}
"""Kubernetes' own words: each reader decodes the fields that it needs."""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_a_private_name_of_another(package):
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {name.name}"
        for file, tree in modules(package).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for name in node.names
        if name.name.startswith("_")
    ]
    assert found == []


def test_one_word_names_one_class():
    found = defaultdict(list)
    for file in files():
        for name in re.findall(r"^class ([A-Za-z]\w*)", file.read_text(), re.MULTILINE):
            found[name].append(str(file.relative_to(ROOT)))
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


def test_a_package_says_what_it_is():
    packages = {file: tree for file, tree in all_modules().items() if file.name == "__init__.py"}
    assert len(packages) > 15
    assert [file for file, tree in packages.items() if not ast.get_docstring(tree)] == []


def public(package):
    """What the package's `__init__` names, as it is written there."""
    for node in modules(package)[ROOT / package / "__init__.py"].body:
        if isinstance(node, ast.Assign) and [target.id for target in node.targets] == ["PUBLIC"]:
            return [f"{package}.{name}" for name in ast.literal_eval(node.value)]
    return []


@functools.cache
def imported_from_outside():
    """The modules of each package that others import, and by which."""
    trees = all_modules()
    known = {name_of(file) for file in trees}
    found = defaultdict(lambda: defaultdict(set))
    for file, tree in trees.items():
        importer = name_of(file)
        for name in imports_of(tree, known):
            package = name.partition(".")[0]
            if package != importer.partition(".")[0]:
                found[package][name].add(importer)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_other_packages_import_what_a_package_names_public_and_all_of_it(package):
    imported = imported_from_outside().get(package, {})
    inside = {name: sorted(by) for name, by in imported.items() if name not in public(package)}
    assert inside == {}, f"import a public module of {package}, or name these in its PUBLIC"
    assert set(public(package)) - set(imported) == set(), "nobody outside imports these: leave them out"
    assert public(package) == sorted(public(package))
