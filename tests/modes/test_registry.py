"""Modes are one module each: their names decide nothing anywhere else."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from modes.mode import DEFAULT_MODE, ModeName
from modes.registry import MODES
from policies.model.limiters import Modes

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"modes", "tests"}
CODE = [file for package in sorted({*PACKAGES, "charts"}) for file in (ROOT / package).rglob("*.py")]
"""Of the product, its benches, its test bed and its chart."""
SCHEMAS = [ROOT / "policies" / "model" / name for name in ("limiters.py", "schema.py")]
"""Its limiters say what differs by mode, so it names them."""
OTHER_MEANINGS = {
    ("agent/kubernetes/gpu_node.py", "mig"),
    ("bench/cluster.py", "per-gpu"),
    ("bench/cluster.py", "dra"),
    ("controller/watch/resource_slice.py", "mig"),
    ("kube/__init__.py", "dra"),
    ("agent/usage.py", "dra"),
    ("agent/options.py", "dra"),
    ("agent/dra/serving.py", "dra"),
    ("controller/watch/gpu_node.py", "dra"),
    ("doctor/gpu_nodes.py", "dra"),
    ("policies/model/types.py", "mig"),
    ("testbed/nvidia/parts.py", "dra"),
    ("webhook/admission/hami_cards.py", "mig"),
}
"""A field of the GpuNode: whether a card is divided; a bench that compares two modes; a
type of NVIDIA's DRA devices; the module of names, and how the agent offers cards; a part of the names of
DeviceClasses; a word of HAMi's."""


def test_every_mode_of_the_schema_is_registered_under_its_own_name():
    assert set(MODES) == set(get_args(ModeName))
    assert all(mode.name == name for name, mode in MODES.items())
    assert DEFAULT_MODE in MODES


@pytest.mark.parametrize("name", MODES)
def test_limiters_can_say_what_differs_in_every_mode(name):
    part = {"env": {"NAME": "value"}}
    assert Modes.model_validate({name: part}).of(name).env == part["env"]
    assert Modes.model_validate({name: part}).of(next(n for n in MODES if n != name)).env == {}


QUOTED = re.compile("|".join(f"[\"']{re.escape(name)}[\"']" for name in MODES))
"""What a module has that may name a mode; the others are not parsed."""


def texts(tree):
    """Texts of a module that are values: attributes named in `__slots__` and docstrings are not."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            skipped.update(ast.walk(node.value))
    return {n.value: n.lineno for n in ast.walk(tree) if isinstance(n, ast.Constant) and n not in skipped}


def test_modes_are_named_in_their_own_modules_and_the_schema_alone():
    files = [file for file in CODE if file not in SCHEMAS]
    assert len(files) > 300
    found = [
        f"{file.relative_to(ROOT)}:{texts_of[name]}"
        for file in files
        for text in [file.read_text()]
        if QUOTED.search(text)
        for texts_of in [texts(ast.parse(text))]
        for name in MODES
        if name in texts_of and (str(file.relative_to(ROOT)), name) not in OTHER_MEANINGS
    ]
    assert found == [], "ask the mode (modes/mode.py) instead of comparing its name"


def test_the_module_of_one_mode_is_imported_by_the_registry_alone():
    modules = "|".join(re.escape(mode.__module__) for mode in MODES.values())
    importing = re.compile(rf"^\s*(from ({modules}) import|import ({modules})\b)", re.MULTILINE)
    found = [str(file.relative_to(ROOT)) for file in CODE if importing.search(file.read_text())]
    assert found == [], "take the mode from a policy or from modes/registry.py"
