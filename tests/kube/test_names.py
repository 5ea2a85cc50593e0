"""What may be a name, a label's value or a uid; and that each name of ours is written out once."""

import pytest

from kube.names import MAX_NAME, is_namespace, is_uid

NO_UIDS = ("", "x" * (MAX_NAME + 1), "a\n", "\n", "a b", 'a"', "a\\", "é", "\ud800", "a/b")


def test_uids():
    for text in ("x" * MAX_NAME, "a1b2c3d4-0000-4000-8000-000000000000", "kube-system:a_b.c"):
        assert is_uid(text)
    assert [text for text in NO_UIDS if is_uid(text)] == []


@pytest.mark.parametrize(("text", "can_be"), [("a", True), ("a" * 63, True), ("a" * 64, False), ("", False)])
def test_a_namespace_has_1_to_63_characters(text, can_be):
    assert is_namespace(text) == can_be
