"""The reviews that benches send: of the sizes that the tables name, each one a review of its own."""

import json
from functools import cache

import msgspec
import pytest

from bench import bodies

loads = msgspec.json.decode


@cache
def made(kind):
    return bodies.KINDS[kind]()


def uid_of(body):
    return body.partition(b'"uid":"')[2].partition(b'"')[0]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("ClearML pod", 12_000, 14_000),
        ("mesh-injected pod", 21_000, 25_000),
        ("300 kB", 295_000, 305_000),
        ("small pods, no two alike", 3_300, 3_700),
        ("small pod", 3_300, 3_700),
    ],
)
def test_a_body_has_the_size_that_its_name_says(kind: str, least: int, most: int):
    assert all(least <= len(body) <= most for body in made(kind))


@pytest.mark.parametrize("kind", bodies.KINDS)
def test_bodies_are_compact_reviews_with_uids_of_their_own(kind: str):
    found = made(kind)
    uid = loads(found[0])["request"]["uid"]
    assert uid_of(found[0]).decode() == uid
    assert len(set(map(uid_of, found))) == len(found)
    assert json.dumps(loads(found[0]), separators=(",", ":")).encode() == found[0]


def test_pods_differ_wherever_the_id_of_a_task_is():
    requests = [loads(body)["request"] for body in made("ClearML pod")]
    for number, request in enumerate(requests):
        pod, task = request["object"], f"{number:04x}d3c4b5a697887766554433221100"
        [container] = pod["spec"]["containers"]
        assert task in pod["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
        assert pod["metadata"]["labels"]["clearml-task-id"] == task
        assert request["name"] == pod["metadata"]["name"] == container["name"] == f"clearml-id-{task}"
        assert container["env"][-1] == {"name": "CLEARML_WORKER_ID", "value": f"clearml-agent:{task}"}


def test_of_unlike_pods_each_tolerates_a_taint_that_no_other_does():
    specs = [loads(body)["request"]["object"]["spec"] for body in made("small pods, no two alike")]
    keys = {spec["tolerations"][0]["key"] for spec in specs}
    assert len(keys) == len(specs) == bodies.UNLIKE
