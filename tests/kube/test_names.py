"""What may be a name, a label's value or a uid; and that each name of ours is written out once."""

import ast
import re
import sys

import pytest

from kube import names
from kube.names import MAX_NAME, is_namespace, is_uid
from tests.product import PACKAGES, ROOT, name_of

WITHIN_TEXTS = (
    names.PREFIX,
    names.GROUP,
    names.GPU_MEMORY_LABEL,
    names.GPU_PRODUCT_LABEL,
    names.GPU_COUNT_LABEL,
    names.GPU_REPLICAS_LABEL,
    names.QUEUE_ID_LABEL,
)
"""These are written out in no text of the product, messages included."""
WHOLE_TEXTS = {names.NVIDIA_DOMAIN, names.GPU_RESOURCE, names.SHARED_GPU_RESOURCE, names.GPU_RESOURCE_PREFIX}
"""These are no text of the product; messages may have them as examples."""

UID = re.compile(r"[-.:_A-Za-z0-9]+", re.ASCII)


def test_a_uid_is_made_of_what_names_are_made_of_and_of_nothing_else():
    wrong = [
        chr(code) for code in range(sys.maxunicode + 1) if is_uid(chr(code)) != bool(UID.fullmatch(chr(code)))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text", ["x" * MAX_NAME, "a1b2c3d4-0000-4000-8000-000000000000", "kube-system:a_b.c"]
)
def test_uids(text):
    assert is_uid(text)


@pytest.mark.parametrize(
    "text", ["", "x" * (MAX_NAME + 1), "a\n", "\n", "a b", 'a"', "a\\", "é", "\ud800", "a/b"]
)
def test_no_uids(text):
    assert not is_uid(text)


@pytest.mark.parametrize(("text", "can_be"), [("a", True), ("a" * 63, True), ("a" * 64, False), ("", False)])
def test_a_namespace_has_1_to_63_characters(text, can_be):
    assert is_namespace(text) == can_be


def texts_of(tree):
    """The constant texts of a module, without its docstrings and those of its attributes."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


def is_written_out(text):
    return text in WHOLE_TEXTS or any(name in text for name in WITHIN_TEXTS)


def may_name(text):
    """Whether a module may write one of the names out; the others are not parsed."""
    return any(name in text for name in (*WHOLE_TEXTS, *WITHIN_TEXTS))


def test_names_of_labels_annotations_and_resources_are_written_out_in_one_module_only():
    files = {file: file.read_text() for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    suspects = {file: text for file, text in files.items() if "_pb2" not in file.name and may_name(text)}
    texts = {name_of(file): texts_of(ast.parse(text)) for file, text in suspects.items()}
    found = {name for name, own in texts.items() if any(map(is_written_out, own))}
    # The agent's are kinds of CDI devices, and those of `kube.dra` names of drivers: both have the same form.
    assert {name for name in found if not name.startswith("agent.")} == {"kube.names", "kube.dra"}
