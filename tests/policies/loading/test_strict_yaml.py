"""The YAML reader: plain data with line numbers, or the one problem that says where."""

from decimal import Decimal

import pytest

from policies.loading.strict_yaml import MAX_DEPTH, read_documents
from policies.model.problems import PolicyError


def read(text):
    content = text if isinstance(text, bytes) else text.encode()
    return [document.data for document in read_documents("a.yaml", content)]


def problem_of(text):
    with pytest.raises(PolicyError) as caught:
        read(text)
    assert len(caught.value.problems) == 1
    return str(caught.value)


def test_plain_values_keep_their_type_and_numbers_their_digits():
    text = "a: 1\nb: 'x'\nc: true\nd: ~\ne: [1, {f: -2}]\ng: yes\nh: 010\ni: 1_000\nj: 0x10\nk: .5\nl: '1'\n"
    [found] = read(text)
    assert list(found.values()) == [
        *(1, "x", True, None, [1, {"f": -2}]),
        *("yes", "010", "1_000", "0x10", Decimal("0.5"), "1"),
    ]
    assert str(read("b: 0.500")[0]["b"]) == "0.500"


def test_every_key_and_item_knows_its_line():
    (document,) = read_documents("a.yaml", b"# first\na:\n  b: 1\n  c:\n  - x\n  - y: 2\n")
    paths = [("a",), ("a", "b"), ("a", "c", 0), ("a", "c", 1, "y")]
    assert [document.line_of(path) for path in paths] == [2, 3, 5, 6]
    assert document.line_of(("a", "c", 1, "absent")) == 6


def test_a_file_may_hold_several_documents_and_empty_ones_do_not_count():
    assert read("---\na: 1\n---\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    assert read("# only a comment\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", 'a.yaml:3: key "a" is duplicate (first on line 1): keep one'),
        ("a: &x 1", "a.yaml:1: anchors and aliases are not supported (x): write out the value"),
        ("a: *x", "a.yaml:1: anchors and aliases are not supported (x): write out the value"),
        ("a: !!python/object:os.system x", "not supported (tag:yaml.org,2002:python/object:os.system)"),
        ("a: !!str 1", "tags are not supported (tag:yaml.org,2002:str)"),
        ("a: ! 1", "tags are not supported (!)"),
        ("0.500: 4", 'a.yaml:1: a key must be text: quote it, "0.500"'),
        ("true: 4", 'a key must be text: quote it, "true"'),
        ("? [a]\n: 1", "a key must be text, not a list or a mapping"),
        ("a:\n\tb: 1", "a.yaml:2: is not YAML: found character that cannot start any token; indent YAML"),
        ("a: [1, 2", "is not YAML"),
        ("a: b: c", "is not YAML"),
        (b"a: \xff", "a.yaml:1: is not UTF-8 text"),
        ("a: \x00", "is not YAML"),
        ("a: 1234567890123456789", "a number may have 18 digits"),
        ("a: 1e999999999999999999", "a number may have 18 digits"),
    ],
)
def test_what_is_refused_names_its_line(text, expected):
    assert expected in problem_of(text)


def test_deep_nesting_is_refused_without_recursion():
    assert problem_of("a: " + "[" * 100_000) == f"a.yaml:1: is nested more than {MAX_DEPTH} deep"
