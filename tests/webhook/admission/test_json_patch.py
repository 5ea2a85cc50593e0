"""JSON Patch operations on fields that may be missing, null or empty, as jsonpatch applies them."""

import json

import jsonpatch
import pytest

from webhook.admission.json_patch import add, append, encode, joined, merge, pointer, remove


def applied(document, operations):
    return jsonpatch.apply_patch(document, operations)


@pytest.mark.parametrize("key", ["a", "a/b", "~", "~1", "a~/~0b", ""])
def test_a_key_of_any_characters_is_pointed_at(key):
    assert applied({"x": {key: 1, "other": 2}}, [remove("/x" + pointer(key))]) == {"x": {"other": 2}}
    assert applied({"x": {}}, [add("/x" + pointer(key), 3)]) == {"x": {key: 3}}


@pytest.mark.parametrize(("existing", "after"), [(None, [1, 2]), ([], [1, 2]), ([0], [0, 1, 2])])
def test_values_are_appended_to_a_list_that_may_be_missing_or_null(existing, after):
    assert applied({"x": existing}, append("/x", existing, [1, 2])) == {"x": after}
    assert append("/x", existing, []) == []


@pytest.mark.parametrize("existing", [None, {}, {"a": "0"}, {"a": "1"}, {"b": "9"}])
def test_members_are_set_in_an_object_that_may_be_missing_and_those_that_are_so_stay_untouched(existing):
    operations = merge("/x", existing, {"a": "1"})
    assert applied({"x": existing}, operations) == {"x": {**(existing or {}), "a": "1"}}
    assert (operations == []) == (existing == {"a": "1"})
    assert merge("/x", existing, {}) == []


@pytest.mark.parametrize("patch", [[], [add("/b", 2)], [add("/b", 2), remove("/a")]])
def test_operations_are_put_before_a_patch_that_is_text_already(patch):
    text = encode(patch) if patch else b""
    assert json.loads(joined([add("/a", 1)], text)) == [add("/a", 1), *patch]
