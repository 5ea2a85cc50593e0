"""Mode dra on a real control plane: the scheduler counts, on ResourceSlices as the agent writes them."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from kube.dra import CLAIM_NAME
from testbed.api import ApiError
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from testbed.registration import asking_for_memory, labelled_pod
from tests.control_plane.offered_cards import API, device, device_class, offer

UNKNOWN = "offers no card yet", "no card has one of its models", "try again"
POLICY = (
    "resources: {mode: dra}\nfractions: {'1': 8, '0.125': 1, '0.5': 4, '0.625': 5}\nmemory: {allowed: true}"
)

__all__ = ["device_class", "offer"]

pytestmark = pytest.mark.skipif(
    not UNDER_TEST.is_at_least("1.36"), reason="this Kubernetes has DRAConsumableCapacity only behind a gate"
)


@pytest.fixture
def webhook(serve):
    """The webhook and its controller, for the test's namespace."""
    return serve(POLICY, "--claim-templates")[1]


def create(control_plane, namespace, names, fraction="0.125", **spec):
    """Create labelled pods at once, and repeat those for which no card is known yet."""
    spec = {"terminationGracePeriodSeconds": 0, **spec}

    def one(name):
        return admitted(control_plane, namespace, labelled_pod(name, fraction, **spec))

    with ThreadPoolExecutor(4) as clients:
        return list(clients.map(one, names))


def admitted(control_plane, namespace, pod):
    """Create a pod, again and again until the controller knows the cards that are offered."""

    def created():
        try:
            return control_plane.api.create(pod, namespace)
        except ApiError as error:
            if any(each in str(error) for each in UNKNOWN):
                return None
            raise

    return eventually(created, f"{pod['metadata']['name']} is created")


def running(control_plane, namespace):
    pods = control_plane.api.list("Pod", namespace)
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def unschedulable(control_plane, namespace):
    pods = control_plane.api.list("Pod", namespace)
    reasons = {
        pod["metadata"]["name"]: [each.get("reason") for each in pod["status"].get("conditions", [])]
        for pod in pods
    }
    return {name for name in reasons if "Unschedulable" in reasons[name]}


def allocated(control_plane, namespace):
    """(node, device, request, share) of each allocated part."""
    results = []
    for claim in control_plane.api.list("ResourceClaim", namespace, API):
        found = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        results += [
            (each["pool"], each["device"], each["request"], each.get("consumedCapacity", {}).get("share"))
            for each in found
        ]
    return results


def templates(control_plane, namespace):
    return control_plane.api.list("ResourceClaimTemplate", namespace, API)


def test_sixteen_eighths_fill_two_cards_and_the_next_follows_a_deletion(
    control_plane, namespace, offer, webhook
):
    [node] = offer([81920, 81920])
    names = [f"pod-{number}" for number in range(16)]
    create(control_plane, namespace, names)
    eventually(lambda: running(control_plane, namespace) == set(names), "all 16 run")
    found = Counter(allocated(control_plane, namespace))
    assert found == {(node, "gpu-0", "gpu", "125k"): 8, (node, "gpu-1", "gpu", "125k"): 8}
    create(control_plane, namespace, ["late"])
    eventually(lambda: unschedulable(control_plane, namespace) == {"late"}, "the 17th waits")
    assert len(templates(control_plane, namespace)) == 1
    control_plane.api.delete("Pod", "pod-3", namespace)
    eventually(lambda: "late" in running(control_plane, namespace), "the 17th follows")


def test_pods_that_wait_take_a_card_of_a_size_that_joins_later(control_plane, namespace, offer, webhook):
    """A fraction names no size; memory does, and takes the share of the next smaller known size."""
    offer([40960])
    memory = asking_for_memory("10Gi")
    [first, second] = create(control_plane, namespace, ["one", "two"], "0.5")
    [claim] = first["spec"]["resourceClaims"]
    assert claim["name"] == CLAIM_NAME
    assert claim["resourceClaimTemplateName"].startswith("gpu-fraction-4of8-")
    assert second["spec"]["resourceClaims"] == [claim]
    eventually(lambda: running(control_plane, namespace) == {"one", "two"}, "the card is full")
    create(control_plane, namespace, ["late"], "0.5")
    admitted(control_plane, namespace, memory)
    waiting = {"late", "memory"}
    eventually(lambda: unschedulable(control_plane, namespace) == waiting, "two wait")
    [large] = offer([147456])
    eventually(lambda: waiting <= running(control_plane, namespace), "both run on the new card")
    assert sorted(part[2:] for part in allocated(control_plane, namespace) if part[0] == large) == [
        ("gpu", "500k"),
        ("gpu/m40960", "250k"),
    ]


def test_memory_models_and_whole_cards_are_claimed_as_requested(control_plane, namespace, offer, webhook):
    [small, large] = offer([40960], [81920, 81920])
    pod = asking_for_memory("1431Mi")
    pod["metadata"]["annotations"] = {"clearml-injector/gpu-model": "A100-80"}
    create(control_plane, namespace, ["first"], nodeSelector={"kubernetes.io/hostname": small})
    admitted(control_plane, namespace, pod)
    several = labelled_pod("several", "0.5")
    several["metadata"]["annotations"] = {"clearml-injector/gpus": "2"}
    control_plane.api.create(several, namespace)
    eventually(lambda: len(running(control_plane, namespace)) == 3, "all run")
    parts = allocated(control_plane, namespace)
    assert [part[2] for part in parts if part[3] == "17469" and part[0] == large] == ["gpu/m81920"]
    assert sorted(part[1] for part in parts if part[3] == "500k") == ["gpu-0", "gpu-1"]
    control_plane.api.create(labelled_pod("whole", "1"), namespace)
    eventually(lambda: "whole" in unschedulable(control_plane, namespace), "no card is empty")
    for name in ("first", "memory", "several"):
        control_plane.api.delete("Pod", name, namespace)
    eventually(lambda: "whole" in running(control_plane, namespace), "a card is empty")


def test_a_card_without_its_attributes_stops_no_pod(control_plane, namespace, offer, webhook):
    """A slice of another node that says too little, as a node that nobody trusts may write it."""
    broken = [{**device(0, 81920), "attributes": each} for each in ({}, {"type": {"string": "gpu"}})]
    [node, *_] = offer([81920], *[[each] for each in broken])
    create(control_plane, namespace, ["first"])
    pod = asking_for_memory("60Gi")
    pod["metadata"]["annotations"] = {"clearml-injector/gpu-model": "A100-80"}
    admitted(control_plane, namespace, pod)
    eventually(lambda: len(running(control_plane, namespace)) == 2, "both run")
    assert node in {part[0] for part in allocated(control_plane, namespace)}


def test_containers_may_part_where_the_policy_says_so(control_plane, namespace, offer, serve):
    offer([81920, 81920])
    serve(f"{POLICY}\ncontainers: any-gpu", "--claim-templates")
    create(control_plane, namespace, ["one", "two"], "0.625")
    eventually(lambda: running(control_plane, namespace) == {"one", "two"}, "a pod is on each card")
    pod = labelled_pod("apart", "0.5")
    pod["metadata"]["annotations"] = {"clearml-injector/containers": "a=0.250,b=0.250"}
    [task] = pod["spec"]["containers"]
    pod["spec"]["containers"] = [{**task, "name": name} for name in "ab"]
    control_plane.api.create(pod, namespace)
    eventually(lambda: "apart" in running(control_plane, namespace), "its containers part")
    cards = [card for _, card, _, share in allocated(control_plane, namespace) if share == "250k"]
    assert sorted(cards) == ["gpu-0", "gpu-1"]


def test_a_pod_whose_template_is_deleted_before_its_claim_is_made_runs(
    control_plane, namespace, offer, webhook
):
    offer([81920])
    create(control_plane, namespace, ["first"])
    eventually(lambda: running(control_plane, namespace) == {"first"}, "the first has its claim")
    [manager] = [each for each in control_plane.processes if each.log.stem == "kube-controller-manager"]
    with paused(manager.pid):
        create(control_plane, namespace, ["second"])
        [template] = templates(control_plane, namespace)
        uid, name = template["metadata"]["uid"], template["metadata"]["name"]
        control_plane.api.delete("ResourceClaimTemplate", name, namespace, API)
        assert len(control_plane.api.list("ResourceClaim", namespace, API)) == 1, "it has no claim"
    eventually(lambda: running(control_plane, namespace) == {"first", "second"}, "both run")
    [again] = templates(control_plane, namespace)
    assert (again["metadata"]["name"], again["metadata"]["uid"] != uid) == (name, True)


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
