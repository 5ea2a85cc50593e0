"""One whole controller: what it says of itself while something that it needs is away."""

import asyncio
from functools import partial
from types import SimpleNamespace

import httpx
from prometheus_client import CollectorRegistry

from cluster import leadership, watch_health
from controller import process
from service.background import BackgroundTask, BackgroundTasks
from service.yielding import CooperativeYield
from tests.cluster.fake_api import talking_to
from tests.cluster.objects import node, pod
from tests.controller.replicas import QUICK, ClusterApi, plain, running, until


async def ready(replica):
    """Status and last line of its readiness."""
    try:
        answer = await plain(replica, "/readyz")
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.text.splitlines()[-1]


async def until_said(replica, text):
    """Wait until readiness says something, and give all that it then says."""

    async def said():
        found = await ready(replica)
        return found if text in found[1] else None

    return await until(said)


async def test_a_controller_stays_ready_and_says_so_while_the_api_server_is_away(tmp_path):
    fake = ClusterApi([node("gpu-0")], [pod("a")])
    async with talking_to(fake) as api, running(api, tmp_path, **QUICK) as replica:
        await until_said(replica, "leading")
        fake.away = True
        await until(lambda: not replica.leads)
        away = await until_said(replica, "out of reach")
        known = replica._state.node_state("gpu-0")
        fake.away = False
        again = await until_said(replica, "leading")
    status, text = away
    assert again[0] == 200
    # Unready, it would lose its streams, by which webhooks place: it knows what it knew.
    assert status == 200
    assert text.startswith("standing by; leader: ")
    assert "; the API server is out of reach: TimeoutError" in text
    assert known is not None


async def test_a_leader_whose_watch_is_refused_says_so_and_lets_another_lead(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_health, "UNHEALTHY_AFTER_SECONDS", 0.5)

    fake, other = ClusterApi([node("gpu-0")]), ClusterApi([node("gpu-0")])
    other.lease = fake.lease
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    async with talking_to(fake) as api, talking_to(other) as other_api, running(api, folders[0]) as first:
        await until_said(first, "leading in term 0")
        fake.refused.add("pods")
        fake.watches["pods"].close()
        fault = await until_said(first, "pods is forbidden")
        metrics = (await plain(first, "/metrics")).text
        alone = first.leads
        monkeypatch.setattr(leadership, "YIELD_SECONDS", 0.0)
        async with running(other_api, folders[1]) as second:
            await until(lambda: second.leads)
            still = first.leads
    status, text = fault
    assert status == 200
    assert text.startswith("leading in term 0; watch of pods: no event for ")
    assert text.endswith(" s: ApiError: the API server answered 403: pods is forbidden")
    assert 'fraction_injector_watch_well{resource="pods"} 0.0' in metrics
    assert 'fraction_injector_watch_well{resource="nodes"} 1.0' in metrics
    # A ledger that is out of date is better than none.
    assert (alone, still) == (True, False)


async def test_a_controller_of_claims_leads_once_it_knows_what_drivers_offer_or_may_not_know(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(process, "SLICES_SECONDS", 60)
    fake = ClusterApi([node("gpu-0")])
    fake.refused.add("resourceslices")
    async with talking_to(fake) as api, running(api, tmp_path, claim_templates=True) as replica:
        await replica._state.synced.wait()
        for _ in range(5):
            await until_said(replica, "standing by")
        assert "/leases" not in str(fake.asked)
        replica._state.offers_listed.set()
        await until(lambda: replica.leads)
    monkeypatch.setattr(process, "SLICES_SECONDS", 0.1)
    async with talking_to(fake) as api, running(api, tmp_path, claim_templates=True) as replica:
        await until(lambda: replica.leads)


async def test_a_leader_that_is_asked_to_stop_hands_over_while_it_still_serves(tmp_path):
    fake = ClusterApi([node("gpu-0")])
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    async with (
        talking_to(fake) as api,
        running(api, folders[0], stop_delay=60) as first,
        running(api, folders[1]) as second,
    ):
        await until(lambda: first.leads or second.leads)
        leader, standby = (first, second) if first.leads else (second, first)
        leader._withdraw()
        # The Lease would be theirs for a quarter of an hour.
        await until(lambda: standby.leads)
        assert (leader.leads, (await plain(leader, "/livez")).status_code) == (False, 200)


async def test_a_controller_that_seldom_looks_at_certificates_is_not_stuck(tmp_path):
    """By --ca-retry, which has no upper bound."""
    hour = 3600
    changes = {"issue_certificates": "injector", "ca_retry": hour}
    async with talking_to(ClusterApi()) as api, running(api, tmp_path, **changes) as replica:
        await until(lambda: replica.leads)
        (task,) = (task for task in replica._leader.tasks() if task.name == "certificates")
    assert task.period_seconds > hour


async def test_a_node_whose_cards_change_their_size_all_the_time_makes_no_task_seem_stuck(monkeypatch):
    monkeypatch.setattr(process, "EXPIRY_SECONDS", 0.0)
    tasks = BackgroundTasks(["reservations"], CollectorRegistry())
    never_done = SimpleNamespace(expire=lambda: not tasks.tick(), yielding=CooperativeYield())
    run = partial(process.ControllerProcess._expire, SimpleNamespace(_state=never_done))
    keeping = asyncio.create_task(tasks.keep(BackgroundTask("reservations", run, 1.0)))
    for _ in range(100):
        await asyncio.sleep(0)
    keeping.cancel()
    assert tasks.stuck is None
