"""Pods that mount the policies' ConfigMap are touched when it changes: the kubelet then brings it at once."""

import asyncio

import pytest

from controller.policies.policy_delivery import PolicyDelivery
from kube.names import POLICIES_ANNOTATION
from tests.cluster.fake_api import FakeApi, refusal, reply, talking_to

MOUNTED = {"name": "policies", "configMap": {"name": "x-policies"}}
FORBIDDEN = refusal(403, "pods is forbidden")


def pod(name, *volumes, mark=None):
    annotations = {} if mark is None else {POLICIES_ANNOTATION: mark}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"volumes": list(volumes)}}


def pods(*found):
    return reply({"items": list(found)})


def version(text):
    return reply({"metadata": {"resourceVersion": text}})


def asked(*replies, looks):
    """What the API server was asked in so many looks."""
    fake = FakeApi(*replies)

    async def main():
        async with talking_to(fake) as api:
            delivery = PolicyDelivery(api, "own", "x-policies")
            for _ in range(looks):
                await delivery.check()

    asyncio.run(main())
    return [
        (method, path.removeprefix("/api/v1/namespaces/own/"), body) for method, path, _, body in fake.asked
    ]


LOOK = ("GET", "configmaps/x-policies", None)
LIST = ("GET", "pods", None)


def touch(name, mark):
    return ("PATCH", f"pods/{name}/status", {"metadata": {"annotations": {POLICIES_ANNOTATION: mark}}})


def test_pods_that_mount_the_policies_are_touched_through_their_status_once_two_looks_saw_them():
    """The kubelet hears of the change as the controller does, and must know it when it looks."""
    other = {"name": "policies", "configMap": {"name": "y-policies"}}
    secret = {"name": "policies", "secret": {"secretName": "x-policies"}}
    found = pods(pod("one", {"name": "a", "emptyDir": {}}, MOUNTED), pod("two", other), pod("three", secret))
    done = asked(version("7"), version("7"), found, reply({}), version("7"), looks=3)
    assert done == [LOOK, LOOK, LIST, touch("one", "7"), LOOK]


def test_a_pod_is_touched_once_for_a_version_and_again_for_the_next():
    first, second = pods(pod("one", MOUNTED, mark="7")), pods(pod("one", MOUNTED, mark="7"))
    done = asked(
        *[version("7"), version("7"), first], *[version("8"), version("8"), second, reply({})], looks=4
    )
    assert done == [LOOK, LOOK, LIST, LOOK, LOOK, LIST, touch("one", "8")]


@pytest.mark.parametrize(
    "refused", [[FORBIDDEN], [pods(pod("one", MOUNTED)), FORBIDDEN]], ids=["list", "touch"]
)
def test_what_failed_is_tried_again_and_reported_once(refused, capfd):
    found = [pods(pod("one", MOUNTED)), reply({})]
    done = asked(version("7"), version("7"), *refused, version("7"), *refused, version("7"), *found, looks=4)
    assert done[-1] == touch("one", "7")
    assert capfd.readouterr().err.count("pods are not annotated") == 1


def test_pods_of_daemon_sets_come_last_for_there_is_one_on_each_node():
    on_each = pod("agent", MOUNTED)
    on_each["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    webhook = pod("webhook", MOUNTED)
    webhook["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "webhook"}]
    done = asked(version("7"), version("7"), pods(on_each, webhook), reply({}), reply({}), looks=2)
    assert done[-2:] == [touch("webhook", "7"), touch("agent", "7")]


def test_a_pod_that_cannot_be_touched_keeps_no_other_from_it_and_is_tried_again(capfd):
    both = pods(pod("one", MOUNTED), pod("two", MOUNTED))
    first = [version("7"), version("7"), both, refusal(422, "one is odd"), reply({})]
    again = [version("7"), pods(pod("one", MOUNTED), pod("two", MOUNTED, mark="7")), reply({})]
    done = asked(*first, *again, looks=3)
    assert done[-5:] == [touch("one", "7"), touch("two", "7"), LOOK, LIST, touch("one", "7")]
    assert "one is odd" in capfd.readouterr().err
