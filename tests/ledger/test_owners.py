"""The owner whose replica a pod is: read off the pod, and never that of another namespace or sort."""

import pytest

from kube.objects import OwnerReference
from ledger.owners import owner_key
from tests.ledger.cluster import read_pod

CONTROLLER = OwnerReference("uid-1", controller=True)


OWNED = {"uid": "uid-1", "controller": True}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"ownerReferences": [OWNED]}, owner_key("team", [CONTROLLER], None, ())),
        ({"ownerReferences": [{"uid": "x"}, OWNED]}, owner_key("team", [CONTROLLER], "b-", ("q",))),
        ({"generateName": "a-"}, owner_key("team", None, "a-", ("q",))),
        ({"labels": {"clearml-agent-queue-name": "Q"}}, owner_key("team", None, None, ("q",))),
        ({"ownerReferences": [{"uid": "uid-1"}]}, ""),
        ({}, ""),
    ],
)
def test_the_owner_is_the_controller_else_the_generated_name_else_the_queue(metadata, expected):
    assert read_pod({"nvidia.com/gpu-0": "1"}, namespace="team", **metadata).owner == expected


def test_owners_of_two_namespaces_or_of_two_sorts_are_never_the_same():
    references = [OwnerReference("x", controller=True)]
    keys = [
        owner_key(space, *rest) for space in ("a", "b") for rest in ((references, None, ()), (None, "x", ()))
    ]
    keys += [owner_key(space, None, None, ("x",)) for space in ("a", "b")]
    assert len(set(keys)) == 6
    assert {len(key) for key in keys} == {16}
    assert len(owner_key("a", None, "x" * 10**6 + "\ud800", ())) == 16
