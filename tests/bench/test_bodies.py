"""The reviews that benches send: of the sizes that the tables name, each one a review of its own."""

import json

import pytest

from bench import bodies


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("bare pod", 2_500, 3_500),
        ("ClearML pod", 12_000, 14_000),
        ("mesh-injected pod", 21_000, 25_000),
        ("300 kB", 295_000, 305_000),
        ("1 MiB", 1_040_000, 1_060_000),
    ],
)
def test_a_body_has_the_size_that_its_name_says(kind: str, least: int, most: int):
    assert all(least <= len(body) <= most for body in bodies.KINDS[kind]())


@pytest.mark.parametrize("kind", bodies.KINDS)
def test_bodies_are_compact_reviews_with_uids_and_pod_names_of_their_own(kind: str):
    found = bodies.KINDS[kind]()
    requests = [json.loads(body)["request"] for body in found]
    assert len({request["uid"] for request in requests}) == len(found)
    assert len({request["object"]["metadata"]["name"] for request in requests}) == len(found)
    assert json.dumps(json.loads(found[0]), separators=(",", ":")).encode() == found[0]


def test_a_pod_has_as_many_containers_as_were_asked_for():
    review = json.loads(bodies.with_containers(55)[0])
    assert len(review["request"]["object"]["spec"]["containers"]) == 55
