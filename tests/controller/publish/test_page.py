"""What the controller's page says in addition to the ledger: why pods wait, ages and quotas."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock

import msgspec
import pytest

from controller.pods.pod_demands import PodDemands
from controller.pods.pod_findings import HAS_ROOM, NO_GPU
from controller.policies.watched_policies import WatchedPolicies
from controller.publish import page
from controller.watch.gpu_node import AgentReport, UnlimitedContainer, UnlimitedContainers
from controller.watch.resources import InjectedPod, Owner
from kube.dra import DRIVER
from kube.names import AGENT_TAINT
from kube.scheduling import Constraints, Taint
from ledger.claim_room import ClaimAsk
from ledger.claimed_cards import CardClaim
from ledger.placement_request import Quota
from ledger.why_claim import ShareClaim
from modes.claim_name import NamedShare
from modes.facts import QuotaWait
from modes.resource_names import ResourceNames
from tests.controller.cards import part, with_cards
from tests.controller.watch.test_ledger_store import ready_state, seen_node, seen_pod
from web.source import NodeNotes

NOT_KNOWN, NOTHING = AsyncMock(return_value=None), AsyncMock(return_value=PodDemands(Constraints()))


def waiting_reasons(state, demands=NOTHING, **more):
    return page.WaitingReasons(state, ResourceNames(), demands, **more)


def reasons(state, clock, *names, demands=NOTHING):
    made = waiting_reasons(state, demands, clock=clock)
    pending = {each.name: each for each in state.ledger.pending()}
    gone = SimpleNamespace(namespace="team", name="gone")

    async def main():
        found = [await made.of(pending.get(name, gone)) for name in names]
        return [why.text or why.cause for why in found]

    return asyncio.run(main())


def test_a_pod_waits_for_room_or_for_something_else_or_for_nodes_that_are_not_there():
    state, clock = ready_state("a")
    state.set_pod(seen_pod("x", node="a"))
    state.set_pod(seen_pod("y"))
    assert reasons(state, clock, "y") == [HAS_ROOM]
    state.set_pod(seen_pod("z", node="a"))
    [why, gone] = reasons(state, clock, "y", "gone")
    assert why.startswith("needs 4 slices of GPU 0; free now: a: 0; it starts when")
    assert gone == "is gone"
    known = seen_node("a")
    state.set_node(msgspec.structs.replace(known, fact=msgspec.structs.replace(known.fact, usable=False)))
    assert reasons(state, clock, "y") == [NO_GPU]


def test_a_labelled_pod_waits_in_the_words_of_the_command():
    owner = Owner(uid="o", controller=True, api_version="apps/v1", kind="StatefulSet", name="web")
    state, _ = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    injected = InjectedPod(uid="1", asked="0.500", injected="default@1", lacks_slices=True, owner=owner)
    state.set_pod(msgspec.structs.replace(seen_pod("y"), injected=injected))
    [pending] = state.ledger.pending()
    found = asyncio.run(waiting_reasons(state).of(pending))
    assert found.cause == "needs 4 slices of a GPU"
    assert found.text.startswith(
        'Pod team/y requested clearml-injector/fraction "0.500". Policy "default" gives it'
    )
    assert "It needs 4 slices of GPU 0. Free now: a: 2." in found.text


def test_a_pod_whose_demands_are_not_known_yet_is_reported():
    state, clock = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    state.set_pod(seen_pod("y"))

    reported = reasons(state, clock, "y", demands=NOT_KNOWN)
    assert reported == ["waits for slices; free slices are being searched"]

    too_long = AsyncMock(return_value=PodDemands(None))
    [reported] = reasons(state, clock, "y", demands=too_long)
    assert reported.startswith("the pod's nodeSelector, affinity or tolerations are too long to compare")


def test_quotas_and_ages_are_those_of_policies_and_pods(tmp_path):
    policy = "kind: Policy\nname: default\nquotas: {namespaces: {team: {slices: 16}}}\n"
    (tmp_path / "default.yaml").write_text(policy)
    policies = WatchedPolicies(tmp_path)
    state, _ = ready_state("a")
    state.set_pod(msgspec.structs.replace(seen_pod("x"), created="2026-01-01T00:00:00Z"))
    facts = page.about(state, lambda: "leading", waiting_reasons(state), policies)
    assert facts.quotas() == (Quota("namespace", "team", 16),)
    assert facts.quotas() is facts.quotas()
    assert (facts.created("team", "x"), facts.created("team", "y")) == ("2026-01-01T00:00:00Z", "")
    (tmp_path / "default.yaml").write_text("broken: [")
    assert WatchedPolicies(tmp_path).quotas() == ()


def test_a_node_is_held_by_the_taint_of_its_agent_and_its_gpus_are_unhealthy_by_the_report(tmp_path):
    state, _ = ready_state("a", "b", "c")
    policies = WatchedPolicies(tmp_path)
    notes = page.about(state, lambda: "leading", waiting_reasons(state), policies).notes
    for name, key in (("a", AGENT_TAINT), ("b", "example.com/other")):
        known = seen_node(name)
        taints = (Taint(key, "NoSchedule"),)
        fact = msgspec.structs.replace(known.fact, taints=taints)
        state.set_node(msgspec.structs.replace(known, fact=fact))
    state.set_agent(AgentReport("b", ((0, 81920), (2, 81920)), unhealthy=(0, 2)))
    assert notes("a") == NodeNotes(is_held=True)
    assert notes("b") == NodeNotes(unhealthy=frozenset({0, 2}))
    assert notes("c") == notes("unknown") == NodeNotes()


def without_limiter(node, *pods, count=None):
    named = tuple(UnlimitedContainer("team", pod, "main", 0, 5120) for pod in pods)
    found = UnlimitedContainers(len(pods) if count is None else count, named)
    return AgentReport(node, (), unlimited=found)


def test_what_runs_without_its_limiter_is_listed_for_all_nodes_by_name():
    reports = [without_limiter("b", "x", "w", count=9), AgentReport("c", ()), without_limiter("a", "y")]
    found, count = page.unlimited(reports)
    assert [(each.node, each.pod) for each in found] == [("a", "y"), ("b", "w"), ("b", "x")]
    assert count == 10


def test_of_many_nodes_so_many_are_named_and_all_are_counted():
    pods = [f"pod-{number}" for number in range(16)]
    found, count = page.unlimited(without_limiter(f"n{number}", *pods) for number in range(100))
    assert (len(found), count) == (page.MAX_UNLIMITED, 1600)


CLAIM = ShareClaim(state="waiting", name="y-claim", driver=DRIVER, asked=ClaimAsk(60000, card_mib=81920))
LACKS = InjectedPod(uid="1", asked="60000Mi", injected="default@1", has_claim=True, lacks_cards=True)


def claiming(name="y", injected=LACKS, **fact):
    seen = seen_pod(name, takes=(), claimed=(NamedShare(mib=60000),), **fact)
    return msgspec.structs.replace(seen, injected=injected)


THAT_CLAIM = AsyncMock(return_value=PodDemands(Constraints(), claim=CLAIM))


def reason_of_a_claim(pod=None, claim_of=THAT_CLAIM, change=lambda state: None, *, listed=True):
    state, clock = ready_state("a")
    with_cards(state)
    if listed:
        asyncio.run(state.watched_offers.listed())
        asyncio.run(state.watched_claims.listed())
    state.set_pod(pod or claiming())
    change(state)
    [(pending, _)] = state.ledger.first_pending(5)
    made = waiting_reasons(state, claim_of, clock=clock)
    return asyncio.run(made.of(pending))


def test_a_pod_waits_for_a_card_in_the_words_of_the_command():
    found = reason_of_a_claim()
    assert found.cause == "60000 MiB of a card with 81920 MiB: none has enough room"
    assert found.text.startswith('Pod team/y requested clearml-injector/fraction "60000Mi". Policy "default"')
    assert "none has enough room, the most free is 51200 of 81920 MiB on cards." in found.text


def test_a_claim_waits_for_the_scheduler_if_a_card_has_room_or_it_has_not_tried():
    def free(state):
        state.watched_claims.remove(("team", "train-claim"))

    assert reason_of_a_claim(change=free).cause.endswith(
        ": a node has room, the scheduler tries again or has another reason"
    )
    untried = claiming(injected=msgspec.structs.replace(LACKS, lacks_cards=False))
    assert reason_of_a_claim(untried).cause == (
        "the scheduler has not tried yet, or has another reason than cards"
    )


def test_a_claim_that_got_its_card_since_it_was_read_does_not_wait_for_one():
    def allocate(state):
        state.watched_claims.set(CardClaim("team", "y-claim", "y", (part("gpu-0", 40960),)))

    found = reason_of_a_claim(change=allocate)
    assert found.cause == "the scheduler is binding its node"
    assert "Its claim holds 0.5 of gpu-0" in found.text


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (None, "waits for a card; free cards are being searched"),
        (PodDemands(None, claim=CLAIM), "its nodeSelector, affinity or tolerations are too long to compare"),
        (
            PodDemands(Constraints(), claim=ShareClaim(state="waiting", name="y-claim")),
            "a claim: it is not known which cards have room",
        ),
        (
            PodDemands(Constraints(), claim=ShareClaim(state="deleted", name="y-claim")),
            "its claim was deleted",
        ),
    ],
    ids=["not read yet", "too long", "of any cards", "deleted"],
)
def test_a_claim_that_is_not_known_yet_is_reported(found, cause):
    assert reason_of_a_claim(claim_of=AsyncMock(return_value=found)).cause.endswith(cause)


def test_until_cards_are_listed_a_claim_waits_for_the_search():
    assert reason_of_a_claim(listed=False).cause == "waits for a card; free cards are being searched"


def test_a_pod_that_claims_cards_waits_for_its_quota_like_others():
    gated = claiming(quota_wait=QuotaWait("1"))
    found = reason_of_a_claim(gated)
    assert found.cause == "the quota is used up"
    assert "gives it a claim of 60000 MiB of a card with 81920 MiB" in found.text
    assert "scheduling gates" in found.text
    assert reason_of_a_claim(gated, NOT_KNOWN).cause == "the quota is used up"
    assert found.place == ""


def test_the_place_in_the_line_of_a_quota_is_told():
    state, clock = ready_state("a")
    for name in ("x", "y"):
        state.set_pod(seen_pod(name, node=None, quota_wait=QuotaWait("1")))
    quotas = (Quota("namespace", "team", 0),)
    made = waiting_reasons(state, quotas_of=lambda *_: quotas, clock=clock)
    found = [asyncio.run(made.of(pending)) for pending, _ in state.ledger.first_pending(5)]
    assert [each.place for each in found] == ["1 of 2", "2 of 2"]
