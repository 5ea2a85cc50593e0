"""The controller's API: who may place, what is no batch, and a stream that tells everything."""

import asyncio
from types import SimpleNamespace

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller import placement_api
from controller.claims.claim_templates import ClaimTemplates
from controller.placement_api import MAX_BODY, ControllerApi
from controller.policies.watched_policies import WatchedPolicies
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.dra import DRIVER
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from ledger.messages import (
    MAX_ASKS,
    MAX_REQUEST_BYTES,
    Answers,
    Batch,
    PoliciesReply,
    StreamEvent,
    write_request,
)
from ledger.placement_request import Assumption, OverQuota, Placement, Quota
from modes.fraction import Fraction
from modes.instance import Instance
from policies.loading.loader import parse_policies
from tests.controller.claims.test_claim_templates import CLAIMED, Api
from tests.controller.watch.test_ledger_store import ready_state, seen_pod
from tests.ledger.cluster import changed, request_of
from tests.ledger.test_instances import A100_80, mig_node

EIGHTH = Fraction(1, 8)


def api(state, *, leads=True, leader="https://other:9443", policies=lambda: None):
    leadership = SimpleNamespace(leads=leads, leader=leader, transition=3)
    return ControllerApi(state, leadership, ControllerMetrics(CollectorRegistry()), policies)


def ask(api, method, path, content=b""):
    async def main():
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(transport=transport, base_url="https://controller") as client:
            return await client.request(method, path, content=content)

    return asyncio.run(main())


def place(api, *asks, releases=()):
    raw = [msgspec.Raw(write_request(ask)) for ask in asks]
    body = msgspec.json.encode(Batch(raw, list(releases)))
    return ask(api, "POST", "/v1/placements", body)


def answers(reply):
    assert reply.status_code == 200, reply.text
    return [answered.answer() for answered in msgspec.json.decode(reply.content, type=Answers).answers]


def test_a_batch_is_decided_in_its_order_so_that_the_last_slice_goes_once():
    state, _ = ready_state("a")
    quota = Quota("namespace", "team", slices=2)
    asks = [request_of(EIGHTH, namespace="team", quotas=(quota,), reservation=f"r{i}") for i in range(3)]
    first, second, third = answers(place(api(state), *asks))
    assert (type(first), type(second)) == (Placement, Placement)
    assert third == OverQuota(quota, 2, 1, 2, "slices")


def test_releases_come_before_asks():
    state, _ = ready_state("a")
    whole = request_of(Fraction(8, 8), reservation="old")
    answers(place(api(state), whole))
    [found] = answers(place(api(state), request_of(Fraction(8, 8), reservation="new"), releases=["old"]))
    assert (found.node, state.ledger.reservations) == ("a", 1)


def claims(state, *asks, api_server):
    templates = ClaimTemplates(api_server, lambda: True, lambda: 0.0)
    leadership = SimpleNamespace(leads=True, leader="", transition=3)
    metrics = ControllerMetrics(CollectorRegistry())
    reply = place(ControllerApi(state, leadership, metrics, templates=templates), *asks)
    assert reply.status_code == 200, reply.text
    return msgspec.json.decode(reply.content, type=Answers).answers


def claim_of(fraction, reservation="r"):
    asked = request_of(fraction, mode=CLAIMED, writes_limits=False, reservation=reservation)
    return changed(asked, driver=DRIVER)


def with_cards():
    state, _ = ready_state("a")
    state.watched_offers.set(OfferedSlice("a", DRIVER, node="a", cards=(ClaimableCard("gpu-0", 81920),)))
    asyncio.run(state.watched_offers.listed())
    return state


def test_one_template_that_takes_long_delays_no_other_pod_of_the_batch(monkeypatch):
    monkeypatch.setattr(placement_api, "CLAIM_SECONDS", 2.0)

    class SlowForHalves(Api):
        async def request(self, method, path, *, body=None, **more):
            if body is not None and "-4of8-" in body["metadata"]["name"]:
                await asyncio.Event().wait()
            return await super().request(method, path, body=body, **more)

    asks = claim_of(Fraction(4, 8)), claim_of(Fraction(2, 8)), request_of(EIGHTH)
    slow, quick, no_claim = claims(with_cards(), *asks, api_server=SlowForHalves())
    assert "has not stored the claim's template yet" in slow.pending
    assert quick.placement is not None
    assert no_claim.placement.node == "a"


def test_a_template_that_breaks_the_controller_is_refused_alone():
    class Broken(Api):
        async def request(self, *_, **__):
            raise KeyError

    claim, pod = claims(with_cards(), claim_of(Fraction(4, 8)), request_of(EIGHTH), api_server=Broken())
    assert claim.refused == "internal error (KeyError), see the controller's log"
    assert pod.placement.node == "a"


def test_a_controller_that_makes_no_claims_says_so():
    reply = place(api(with_cards()), claim_of(Fraction(4, 8)), request_of(EIGHTH))
    claim, pod = msgspec.json.decode(reply.content, type=Answers).answers
    assert "the controller makes no claims" in claim.refused
    assert pod.placement.node == "a"


def test_only_claims_that_need_the_sizes_of_cards_wait_for_resource_slices(monkeypatch):
    monkeypatch.setattr(placement_api, "CLAIM_SECONDS", 60.0)
    state, _ = ready_state("a")
    asks = claim_of(Fraction(4, 8)), claim_of(Fraction.of_memory(5000, 8)), claim_of(Fraction(8, 8))
    part, amount, whole = claims(state, *asks, api_server=Api())
    assert part.placement is not None
    assert "has not listed the ResourceSlices yet" in amount.pending
    assert whole.placement is not None


def test_of_a_claim_and_an_instance_only_a_claim_has_a_template_and_both_wait_for_what_claims_hold():
    asks = [changed(claim_of(EIGHTH, name), prefer=("mig", CLAIMED)) for name in ("one", "two")]
    state, api_server = with_cards(), Api()
    state.watched_nodes.set(SeenNode(mig_node("m", A100_80, p1g_10gb=1), uid=""))
    waits = claims(state, *asks, api_server=api_server)
    assert ["has not listed" in each.pending for each in waits] == [True, True]
    asyncio.run(state.watched_claims.listed())
    for ask, is_claim in zip(asks, (False, True), strict=True):
        [answer] = claims(state, ask, api_server=api_server)
        assert (answer.placement.instance is None, len(api_server.stored)) == (is_claim, is_claim)


def test_a_standby_names_the_leader_and_decides_nothing():
    state, _ = ready_state("a")
    reply = place(api(state, leads=False), request_of(EIGHTH, reservation="r"))
    assert (reply.status_code, reply.json()) == (409, {"leader": "https://other:9443"})
    assert state.ledger.reservations == 0
    assert place(api(state, leads=False, leader=None)).json() == {"leader": None}


REFUSED = [
    # Else a caller could have the controller walk over 2**62 GPUs of a node that does not exist.
    ({"assume": Assumption(2**62, 81920)}, "$.demands.assume"),
    ({"assume": Assumption(4, 10**9)}, "$.demands.assume"),
    ({"existing": Placement((0,), 81920, (), containers=(0, 0))}, "are not parts of"),
    # Its reservation would take nothing, and be given back all the same.
    (
        {"mode": "mig", "existing": Placement((), 9728, (), instance=Instance(21020, 1, 9728, ()))},
        "the existing instance has index (21020,), but the placement has ()",
    ),
    (
        {"prefer": ("pooled", "per-gpu"), "resource": "nvidia.com/mig-1g.10gb"},
        "no mode in `prefer` gives nvidia.com/mig-1g.10gb",
    ),
    # Else it would make room in a quota that nobody has.
    ({"quotas": (Quota("namespace", "team", slices=-1),)}, "Expected `int` >= "),
    ({"existing": Placement((-1,), 81920, ())}, "Expected `int` >= "),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_what_no_policy_can_ask_for_is_refused_alone(fields, said):
    state, _ = ready_state("a")
    reply = place(api(state), request_of(EIGHTH, **fields), request_of(EIGHTH))
    first, second = msgspec.json.decode(reply.content, type=Answers).answers
    assert said in (first.refused or "")
    assert second.placement is not None


def test_a_request_that_breaks_the_ledger_is_refused_alone(monkeypatch):
    state, _ = ready_state("a")
    place_one = state.place

    def broken(request):
        return place_one(request) if request.accounting.namespace == "team" else 1 // 0

    monkeypatch.setattr(state, "place", broken)
    both = [request_of(EIGHTH, namespace=name) for name in ("other", "team")]
    first, second = msgspec.json.decode(place(api(state), *both).content, type=Answers).answers
    assert first.refused == "internal error (ZeroDivisionError), see the controller's log"
    assert second.placement is not None


def test_a_batch_stops_as_soon_as_its_controller_no_longer_leads(monkeypatch):
    state, _ = ready_state("a")
    served = api(state)

    def place(ask):
        served._leadership.leads = False
        return LedgerStore.place(state, ask)

    monkeypatch.setattr(state, "place", place)
    asks = [msgspec.Raw(write_request(request_of(EIGHTH))) for _ in range(2)]
    assert asyncio.run(served._decide(SimpleNamespace(asks=asks, releases=[]))) is None


def test_nothing_is_answered_before_the_ledger_is_whole():
    reply = ask(api(LedgerStore(lambda: 0.0)), "GET", "/v1/ledger/stream")
    assert (reply.status_code, reply.text) == (503, "nodes and pods not listed yet\n")
    assert place(api(LedgerStore(lambda: 0.0))).status_code == 503


@pytest.mark.parametrize("body", [b"", b'{"asks": 1}', b'{"asks": [], "releases": ["' + b"x" * 254 + b'"]}'])
def test_what_is_no_batch_is_refused(body):
    reply = ask(api(ready_state("a")[0]), "POST", "/v1/placements", body)
    assert (reply.status_code, reply.text[:25]) == (400, "not a batch of requests: ")


def test_a_body_without_a_length_is_read_no_further_than_the_limit():
    sent = []

    async def parts():
        for _ in range(100):
            sent.append(1 << 20)
            yield b" " * (1 << 20)

    reply = ask(api(ready_state("a")[0]), "POST", "/v1/placements", parts())
    assert (reply.status_code, reply.text) == (413, f"the body is over {MAX_BODY} bytes\n")
    assert sum(sent) == MAX_BODY + (1 << 20)


def test_a_batch_that_is_too_long_is_refused():
    reply = place(api(ready_state("a")[0]), *[request_of(EIGHTH)] * (MAX_ASKS + 1))
    assert (reply.status_code, reply.text) == (400, "513 requests are more than 512: send fewer at once\n")


@pytest.mark.parametrize(
    "bad", [b"null", b'{"share": {"fraction": {"slices": 9, "slices_per_gpu": 8}}}', b"9" * MAX_REQUEST_BYTES]
)
def test_an_ask_that_cannot_be_read_is_refused_alone(bad):
    state, _ = ready_state("a")
    good = write_request(request_of(EIGHTH, namespace="team", reservation="r"))
    body = b'{"asks": [%b,%b,%b]}' % (good, bad, good)
    reply = ask(api(state), "POST", "/v1/placements", body)
    assert reply.status_code == 200
    first, refused, last = msgspec.json.decode(reply.content, type=Answers).answers
    assert first.answer() == last.answer()
    assert 0 < len(refused.refused) <= 200
    with pytest.raises(ValueError, match="the controller refused the request: "):
        refused.answer()


async def test_a_stream_begins_with_everything_and_goes_on_with_what_changes():
    state, _ = ready_state("a", "b")
    served = api(state)
    events = read(served._events())
    beginning = [await anext(events) for _ in range(4)]
    state.set_pod(seen_pod("x", node="b"))
    changed = await anext(events)
    state.remove_node("a")
    gone = await anext(events)
    state.set_pod(seen_pod("w"))
    backlog = await anext(events)
    served.stop_streams()
    rest = [event async for event in events]
    assert [describe(event) for event in beginning] == ["backlog of 0", "a: 0", "b: 0", "synced"]
    assert [describe(event) for event in (changed, gone, backlog)] == ["b: 4", "a is gone", "backlog of 1"]
    assert rest == []
    assert state._readers == []


async def read(parts):
    """The events of a stream; beats are left out."""
    async for part in parts:
        for line in part.split(b"\n"):
            if line.startswith(b"data: "):
                yield msgspec.json.decode(line[6:], type=StreamEvent)


def describe(event):
    if event.node is not None:
        return f"{event.node.fact.name}: {sum(gpu.used for gpu in event.node.view.gpus)}"
    if event.backlog is not None:
        return f"backlog of {len(event.backlog)}"
    return "synced" if event.synced else f"{event.gone} is gone"


def test_any_replica_gives_the_last_good_policies_as_they_were_read(tmp_path):
    state, _ = ready_state("a")
    file = tmp_path / "default.yaml"
    file.write_bytes("kind: Policy\nname: default\n# größer\n".encode())
    policies = WatchedPolicies(tmp_path)
    file.write_text("kind: Policie\n")
    policies._live.reload()
    reply = ask(api(state, leads=False, policies=policies.last_good), "GET", "/v1/policies")
    adopted = msgspec.json.decode(reply.content, type=PoliciesReply)
    assert adopted.files == {"default.yaml": "kind: Policy\nname: default\n# größer\n".encode()}
    assert parse_policies(adopted.files).digest == adopted.digest
    assert policies.detail.startswith("the policies on disk are broken (default.yaml:1: ")
    assert policies.detail.endswith(f"): webhooks that start get {adopted.digest}")


def test_a_replica_that_has_seen_no_good_policies_says_so(tmp_path):
    state, _ = ready_state("a")
    policies = WatchedPolicies(tmp_path)
    reply = ask(api(state, policies=policies.last_good), "GET", "/v1/policies")
    assert (reply.status_code, reply.text) == (404, "no good policy set since this replica started\n")
    assert policies.detail.endswith("there is none to give to webhooks that start")
    assert ask(api(state), "GET", "/v1/policies").status_code == 404
