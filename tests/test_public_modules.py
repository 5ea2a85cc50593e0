"""`__init__` of a package names the modules that other packages import, and these import no others.

Modules are named, not their contents: an `__init__` that imported them all would load the Kubernetes client
for a command that prints help, and YAML into the agent. Tests, benches and the testbed look inside.
"""

import ast
import functools
from collections import defaultdict

import pytest

from tests.product import PACKAGES, ROOT, imports_of, modules, name_of


def public(package):
    """What the package's `__init__` names, as it is written there."""
    for node in modules()[ROOT / package / "__init__.py"].body:
        if isinstance(node, ast.Assign) and [target.id for target in node.targets] == ["PUBLIC"]:
            return [f"{package}.{name}" for name in ast.literal_eval(node.value)]
    return []


@functools.cache
def imported_from_outside():
    """The modules of each package that others import, and by which."""
    trees = modules()
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


def test_imports_are_found_however_they_are_written():
    tree = ast.parse(
        "import kube.names\nfrom kube import events\ndef later():\n    from kube.objects import Pod\n"
    )
    known = {"kube", "kube.names", "kube.events", "kube.objects", "kube.quantity"}
    assert set(imports_of(tree, known)) == {"kube.names", "kube.events", "kube.objects"}


def test_packages_import_each_other():
    imported = imported_from_outside()
    assert len([name for names in imported.values() for name in names]) > 100
    assert imported["kube"]["kube.names"] > {"ledger.from_kubernetes"}
