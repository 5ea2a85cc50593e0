"""Findings as Events on their pods."""

import asyncio
import json
from functools import partial

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.pods import room
from controller.pods.pod_demands import PodDemands
from controller.pods.pod_findings import HAS_ROOM, NO_GPU, Finding
from controller.publish import pod_events
from controller.publish.metrics import ControllerMetrics
from controller.publish.pod_events import PodEvents
from kube.dra import DRIVER
from kube.names import GPU_MEMORY_LABEL, GPU_MODEL_ANNOTATION, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk
from ledger.why_claim import ShareClaim
from modes.resource_names import ResourceNames
from tests.cluster.events import KeptEvents
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import pod
from tests.controller.cards import TAINT, with_cards
from tests.controller.pods.test_pod_findings import changed, cluster, seen


class Stored:
    """An API server that has one pod, and keeps what is written."""

    def __init__(self, **spec):
        self.found = {**pod("a", node=None, uid="u"), "spec": {"containers": [], **spec}}
        self.error = None
        self.written = KeptEvents()

    async def request(self, _method, _path, *, query=None, **_more):
        assert query == {"fieldSelector": "metadata.name=a"}
        if self.error is not None:
            raise self.error
        return json.dumps({"items": [self.found]}).encode()


def events_of(api, state):
    metrics = ControllerMetrics(CollectorRegistry())
    return PodEvents(api, state, Leading(), metrics, ResourceNames(), events=api.written)


async def write_next(events):
    await events._write_event(await events._pending.get())


def test_a_pod_that_did_not_wait_for_slices_yet_is_looked_at_again():
    state = cluster(nodes=["gpu-0"])
    events = events_of(Stored(), state)
    waiting = seen(changed(lacks_slices=True), memory_values=("81920",))
    state.set_pod(waiting)
    asyncio.run(write_next(events))
    assert not events._pending._queues
    state.set_pod(seen(changed(lacks_slices=True, asked="0.5"), memory_values=("81920",)))
    assert asyncio.run(events._pending.get()).reason == "WaitingForSlices"


def event_on(state, api, **fact):
    """The Event that a pod of the API server gets which waits for slices; None where it gets none."""
    events = events_of(api, state)
    state.set_pod(seen(changed(lacks_slices=True), memory_values=("81920",), **fact))
    asyncio.run(write_next(events))
    return events, (api.written.bodies[0]["message"] if api.written.bodies else None)


@pytest.fixture
def renewed_at_once(monkeypatch):
    """Events are checked again at once, and nodes each time."""
    monkeypatch.setattr(pod_events, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(room, "KEPT_SECONDS", 0.0)


def fill(state, node, *, slices):
    """Let a node have fewer free slices, or as many as before."""
    state.set_pod(seen(None, name=f"holder-{node[-1]}", node=node, takes=((1, slices),)))


def check_again(events, *steps):
    """Check what was said after each step."""

    async def write():
        for step in steps:
            step()
            await events._write_event(await asyncio.wait_for(events._next(), 5))

    asyncio.run(write())


def first_free(api):
    """The node that each Event names first."""
    return [each["message"].split("free now: ")[1][:5] for each in api.written.bodies]


@pytest.mark.usefixtures("renewed_at_once")
def test_the_event_is_renewed_as_often_as_it_says_what_is_no_longer_so():
    api, state = Stored(), cluster(*[(f"gpu-{number}", 1, 5) for number in range(4)])
    events, _ = event_on(state, api)
    check_again(events, *[partial(fill, state, "gpu-0", slices=slices) for slices in (5, 7, 5, 7, 7)])
    assert first_free(api) == ["gpu-0", "gpu-1", "gpu-0", "gpu-1"]


@pytest.mark.usefixtures("renewed_at_once")
def test_the_event_of_a_pod_that_could_not_be_read_is_checked_again():
    api, state = Stored(), cluster(*[(f"gpu-{number}", 1, 5) for number in range(4)])
    events, _ = event_on(state, api)

    def fails():
        api.error = TimeoutError()

    def answers():
        api.error = None
        fill(state, "gpu-0", slices=7)

    check_again(events, fails, answers)
    assert first_free(api) == ["gpu-0", "gpu-1"]


def cordon(state, *, usable):
    """Let the only node take no pods, or take them again."""
    known = state.nodes["gpu-0"]
    state.set_node(msgspec.structs.replace(known, fact=msgspec.structs.replace(known.fact, usable=usable)))


@pytest.mark.usefixtures("renewed_at_once")
def test_what_the_event_said_is_replaced_where_the_pod_waits_for_something_else_by_now():
    api, state = Stored(), cluster(("gpu-0", 1, 5), nodes=["gpu-0"])
    events, needs = event_on(state, api)
    slices, takes = partial(fill, state, "gpu-0"), partial(cordon, state)
    steps = [
        partial(slices, slices=3),
        partial(slices, slices=5),
        partial(takes, usable=False),
        partial(takes, usable=True),
    ]
    check_again(events, *steps, partial(api.found["spec"].update, nodeName="gpu-0"))
    assert [each["message"] for each in api.written.bodies] == [needs, HAS_ROOM, needs, NO_GPU, needs]
    assert not events._said, "a pod that was bound is not looked at again"


def test_the_next_leader_writes_the_event_only_if_it_says_something_else():
    api, state = Stored(), cluster(*[(f"gpu-{number}", 1, 5) for number in range(4)])
    event_on(state, api)
    finding = Finding("team", "a", "u", "WaitingForSlices")
    asyncio.run(events_of(api, state)._write_event(finding))
    assert first_free(api) == ["gpu-0"]
    fill(state, "gpu-0", slices=7)
    asyncio.run(events_of(api, state)._write_event(finding))
    assert first_free(api) == ["gpu-0", "gpu-1"]


def test_many_waiting_pods_of_a_namespace_keep_no_others_from_being_renewed(monkeypatch):
    monkeypatch.setattr(pod_events, "MAX_PENDING", 2)
    state = cluster()
    monkeypatch.setattr(state.ledger.line, "place_text", lambda *_: "1 of 3")
    events = events_of(Stored(), state)
    for namespace, name in [("team", "a"), ("team", "b"), ("other", "c"), ("team", "d")]:
        asyncio.run(events._write_event(Finding(namespace, name, name, "WaitingForQuota")))
    assert sorted(each.pod for _, each, _ in events._said.values()) == ["a", "c"]


LEAVE_OUT = "such GPUs, but the pod's nodeSelector, affinity or tolerations exclude them"


def test_the_event_leaves_out_nodes_that_the_pods_own_demands_leave_out():
    full = [(f"gpu-{number}", 1, 5) for number in range(3)]
    only = {"nodeSelector": {"nvidia.com/gpu.memory": "81920", "zone": "a"}}
    state = cluster(*full)
    known = state.nodes["gpu-0"]
    in_zone = msgspec.structs.replace(known.fact, labels={**known.fact.labels, "zone": "a"})
    state.set_node(msgspec.structs.replace(known, fact=in_zone))
    # Node gpu-3 has room, where the pod cannot go.
    _, said = event_on(state, Stored(**only))
    assert said == (
        "needs 4 slices of GPU 1 on a node with GPUs of 81920 MiB; free now: gpu-0: 3;"
        f" 3 more nodes have {LEAVE_OUT}; GPU 0 of gpu-0 has 8 free: delete the pod and create it again to"
        " use it"
    )


@pytest.mark.parametrize("annotations", [{}, {GPU_MODEL_ANNOTATION: "A100"}])
def test_the_event_names_the_annotation_for_models_only_where_the_pod_has_it(annotations):
    full = [(f"gpu-{number}", 1, 5) for number in range(4)]
    labels = {GPU_MEMORY_LABEL: "81920", GPU_PRODUCT_LABEL: "A100"}
    api = Stored()
    api.found["metadata"]["annotations"] = annotations
    _, said = event_on(cluster(*full, labels=labels), api, products=("A100",))
    by = GPU_MODEL_ANNOTATION if annotations else "sameModel of its policy, or its own affinity"
    assert f"and model A100 (required by {by})" in said


@pytest.mark.parametrize("spec", [{"nodeName": "gpu-1"}, {"nodeSelector": {"zone": "z" * 20_000}}])
def test_a_pod_that_is_bound_by_now_or_demands_too_much_gets_no_event(spec):
    full = [(f"gpu-{number}", 1, 5) for number in range(4)]
    assert event_on(cluster(*full), Stored(**spec))[1] is None


@pytest.mark.usefixtures("renewed_at_once")
@pytest.mark.parametrize("error", [None, TimeoutError()], ids=["read", "not read"])
def test_the_event_on_a_claim_names_its_amount_and_what_is_free_of_which_cards(monkeypatch, error):
    asked = [ClaimAsk(share=750_000), ClaimAsk(share=500_000)]

    async def demands(_api, _pod):
        if error is not None:
            raise error
        claim = ShareClaim(state="waiting", driver=DRIVER, asked=asked.pop(0))
        return PodDemands(Constraints(), claim=claim)

    monkeypatch.setattr(pod_events, "read_demands", demands)
    api, state = Stored(), with_cards(cluster())
    asyncio.run(state.watched_offers.listed())
    asyncio.run(state.watched_claims.listed())
    events = events_of(api, state)
    state.set_pod(seen(changed(has_claim=True, slices=None, gpu_index=None, lacks_cards=True), takes=()))
    asyncio.run(write_next(events))
    said = (
        f"needs a claim of 0.75 of a card, offered by driver {DRIVER}. Cards that it accepts: 2, 1 of"
        " which is usable; none has enough room, the most free is 51200 of 81920 MiB on cards. Left out:"
        f" gpu-1 of cards (taint {TAINT}). It starts when pods that hold parts of these cards end."
    )
    assert bool(events._noted) is (error is None), "else it is reported when the scheduler speaks again"
    if error is None:
        # Half a card has room, which three quarters had not.
        check_again(events, lambda: None)
    assert [each["message"] for each in api.written.bodies] == ([said, HAS_ROOM] if error is None else [])
