"""What the controller's page says in addition to the ledger: why pods wait, ages and quotas."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from controller.policies.watched_policies import WatchedPolicies
from controller.publish import page
from controller.watch.gpu_node import AgentReport, UnlimitedContainer, UnlimitedContainers
from controller.watch.resources import InjectedPod, Owner
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.placement_request import Quota
from modes.resource_names import ResourceNames
from tests.controller.watch.test_ledger_store import ready_state, seen_node, seen_pod


async def nothing(_pod):
    return Constraints()


def reasons(state, clock, *names, demands=nothing):
    made = page.WaitingReasons(state, ResourceNames(), demands, clock=clock)
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
    assert reasons(state, clock, "y") == [
        "a node has enough free slices: the scheduler has another reason, see kubectl describe pod"
    ]
    state.set_pod(seen_pod("z", node="a"))
    [why, gone] = reasons(state, clock, "y", "gone")
    assert why.startswith("needs 4 slices of GPU 0; free now: a: 0; it starts when")
    assert gone == "is gone"
    known = seen_node("a")
    state.set_node(msgspec.structs.replace(known, fact=msgspec.structs.replace(known.fact, usable=False)))
    assert reasons(state, clock, "y") == [
        "no usable node has such GPUs: they are cordoned, not ready or missing"
    ]


def reason_of_a_labelled_pod(folder, owner):
    policy = "kind: Policy\nname: default\nreplaceWaiting: {after: 5m}\n"
    (folder / "default.yaml").write_text(policy)
    state, _ = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    injected = InjectedPod(uid="1", asked="0.500", injected="default@1", lacks_slices=True, owner=owner)
    state.set_pod(msgspec.structs.replace(seen_pod("y"), injected=injected))
    [pending] = state.ledger.pending()
    policies = WatchedPolicies(folder)
    return asyncio.run(page.WaitingReasons(state, ResourceNames(), nothing, policies).of(pending)).text


def test_a_labelled_pod_waits_in_the_words_of_the_command(tmp_path):
    owner = Owner(uid="o", controller=True, api_version="apps/v1", kind="StatefulSet", name="web")
    said = reason_of_a_labelled_pod(tmp_path, owner)
    assert said.startswith(
        'Pod team/y requested clearml-injector/fraction "0.500". Policy "default" gives it'
    )
    assert "It needs 4 slices of GPU 0. Free now: a: 2." in said
    assert "Its policy replaces such a pod after 5m" in said


@pytest.mark.parametrize(
    ("api", "kind"), [("batch/v1", "Job"), ("apps.kruise.io/v1beta1", "StatefulSet"), ("", "")]
)
def test_a_pod_that_its_owner_would_not_create_again_is_not_promised_a_replacement(tmp_path, api, kind):
    owner = Owner(uid="o", controller=True, api_version=api, kind=kind, name="task") if kind else None
    assert "replaces such a pod" not in reason_of_a_labelled_pod(tmp_path, owner)


def test_all_nodes_are_walked_once_for_pods_that_want_the_same_and_not_too_often_for_others():
    state, clock = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    for name, slices in (("w4", 4), ("v4", 4), ("w5", 5)):
        state.set_pod(seen_pod(name, takes=((0, slices),)))
    made, walks = page.WaitingReasons(state, ResourceNames(), nothing, clock=clock), []
    find = made._finder.find
    made._finder.find = lambda fact, *how, **more: walks.append(fact.name) or find(fact, *how, **more)
    pending = {each.name: each for each in state.ledger.pending()}

    async def why(name):
        return await made.of(pending[name])

    async def main():
        first = [await why(name) for name in ("w4", "v4", "w5")]
        clock.now += page.SECONDS_BETWEEN_WALKS
        return first, await why("w5")

    first, later = asyncio.run(main())
    assert first[0] == first[1]
    assert first[0].text == later.text.replace("5 slices", "4 slices")
    assert first[0].cause == "needs 4 slices of GPU 0"
    assert first[2].cause == "waits for slices; free slices are being searched"
    assert walks == ["w4", "w5"]


def test_a_long_walk_is_not_followed_by_another_at_once():
    state, clock = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    for slices in (4, 5, 6):
        state.set_pod(seen_pod(f"w{slices}", takes=((0, slices),)))
    made, walks = page.WaitingReasons(state, ResourceNames(), nothing, clock=clock), []
    find = made._finder.find

    async def long(fact, *how, **more):
        walks.append(fact.name)
        clock.now += 2 * page.SECONDS_BETWEEN_WALKS
        return await find(fact, *how, **more)

    made._finder.find = long

    async def main():
        return [await made.of(pending) for pending in state.ledger.pending()]

    asyncio.run(main())
    assert walks == ["w4"]


def test_nodes_that_a_pods_own_demands_leave_out_are_not_called_free():
    state, clock = ready_state("a", "b")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    state.set_pod(seen_pod("y"))
    labelled = InjectedPod(uid="1", asked="0.500", injected="default@1", lacks_slices=True)
    state.set_pod(msgspec.structs.replace(seen_pod("z"), injected=labelled))

    async def only_a(_pod):
        by_name = Requirement("metadata.name", "In", ("a",))
        return Constraints(required_terms=(NodeSelectorTerm(None, (by_name,)),))

    left_out = (
        "1 more node has such GPUs, but the pod's own nodeSelector, affinity or tolerations exclude them"
    )
    unlabelled, command = reasons(state, clock, "y", "z", demands=only_a)
    assert f"free now: a: 2; {left_out}; it starts" in unlabelled
    assert f"Free now: a: 2. {left_out}. It starts" in command
    assert reasons(state, clock, "y")[0].startswith("a node has enough free slices")


def test_a_pod_whose_demands_are_not_known_yet_is_reported():
    state, clock = ready_state("a")
    state.set_pod(seen_pod("x", node="a", takes=((0, 6),)))
    state.set_pod(seen_pod("y"))

    async def unknown(_pod):
        return None

    reported = reasons(state, clock, "y", demands=unknown)
    assert reported == ["waits for slices; free slices are being searched"]

    async def too_long(_pod):
        return "too long"

    [reported] = reasons(state, clock, "y", demands=too_long)
    assert reported.startswith("the pod's own nodeSelector, affinity or tolerations are too long to compare")


def test_quotas_and_ages_are_those_of_policies_and_pods(tmp_path):
    policy = "kind: Policy\nname: default\nquotas: {namespaces: {team: {slices: 16}}}\n"
    (tmp_path / "default.yaml").write_text(policy)
    policies = WatchedPolicies(tmp_path)
    state, _ = ready_state("a")
    state.set_pod(msgspec.structs.replace(seen_pod("x"), created="2026-01-01T00:00:00Z"))
    facts = page.about(
        state, lambda: "leading", page.WaitingReasons(state, ResourceNames(), nothing), policies
    )
    assert facts.quotas() == (Quota("namespace", "team", 16),)
    assert facts.quotas() is facts.quotas()
    assert (facts.created("team", "x"), facts.created("team", "y")) == ("2026-01-01T00:00:00Z", "")
    assert (
        page.about(state, lambda: "", page.WaitingReasons(state, ResourceNames(), nothing), None).quotas()
        == ()
    )
    (tmp_path / "default.yaml").write_text("broken: [")
    assert WatchedPolicies(tmp_path).quotas() == ()


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
