"""Manifests of Events."""

from datetime import UTC, datetime

from kube.events import event, event_name

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_a_name_is_the_same_for_the_same_object_and_identity_and_always_a_name():
    assert event_name("a", "u FractionDrift") == "a.d3f4a18b624eed52"
    assert event_name("a", "u Other") != event_name("a", "u FractionDrift")
    assert len(event_name("x" * 253, "u")) == 217


def test_an_event_is_in_the_namespace_of_its_object():
    involved = {"kind": "Pod", "namespace": "team", "name": "a", "uid": "u"}
    made = event(involved, "Reason", "text", name="a.1", now=NOW, kind="Normal")
    assert made["metadata"] == {"name": "a.1", "namespace": "team"}
    assert made["involvedObject"] == {"apiVersion": "v1", **involved}
    assert (made["type"], made["reason"], made["message"]) == ("Normal", "Reason", "text")
    assert made["firstTimestamp"] == made["lastTimestamp"] == "2026-11-21T10:00:00Z"
