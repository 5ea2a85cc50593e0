"""List pages and watch events, and what in them cannot be read."""

import json

import pytest

from cluster.object_reader import ObjectReader, WatchEvent
from controller.watch.resources import pods
from modes.resource_names import ResourceNames
from tests.cluster.objects import event, listed, pod


@pytest.fixture
def unreadable():
    return []


@pytest.fixture
def reader(unreadable):
    """Reads pods as the controller does, and keeps what cannot be read."""
    found = pods(ResourceNames()).reader
    return ObjectReader(
        found._object.type, found._item_of, lambda name, reason: unreadable.append((name, reason))
    )


def line(kind, found):
    return json.dumps(event(kind, found)).encode()


def keys(items):
    return [item.fact.key for item in items]


def test_a_bad_object_hides_no_other_object(reader, unreadable):
    bad = pod("bad") | {"spec": {"containers": 7}}
    page = listed(pod("null") | {"spec": None}, pod("a"), bad, 7, version="42", more="next")
    items, metadata = reader.read_list(json.dumps(page).encode())
    assert keys(items) == [("team", "a")]
    assert [name for name, _ in unreadable] == ["team/null", "team/bad", "?"]
    assert unreadable[1][1] == "Expected `array | null`, got `int` - at `$.spec.containers`"
    assert (metadata.resource_version, metadata.continue_) == ("42", "next")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"items": null}', b"{"])
def test_what_is_no_list_is_an_error(reader, data):
    with pytest.raises(ValueError):
        reader.read_list(data)


@pytest.mark.parametrize("change", [{}, {"spec": None}], ids=["sound", "bad"])
def test_a_deleted_object_is_named_whatever_is_in_it(reader, unreadable, change):
    found = reader.read_event(line("DELETED", pod("a", version="11") | change))
    assert found == WatchEvent("DELETED", "11", ("team", "a"), None)
    assert unreadable == []


def test_a_changed_object_that_cannot_be_read_is_named(reader, unreadable):
    found = reader.read_event(line("MODIFIED", pod("a", version="11") | {"spec": None}))
    assert found == WatchEvent("MODIFIED", "11", ("team", "a"), None)
    assert [name for name, _ in unreadable] == ["team/a"]
