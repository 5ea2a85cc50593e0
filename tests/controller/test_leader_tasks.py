"""What a replica does at the start of each of its terms."""

import asyncio
from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from cluster.watch_health import WatchHealth
from controller.claims.claim_templates import UNUSED_SECONDS, ClaimTemplates
from controller.leader_tasks import LeaderTasks
from controller.options import ControllerOptions
from controller.policies.watched_policies import WatchedPolicies
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from tests.controller.claims.test_claim_templates import Api, ensure, request


def test_a_new_leader_counts_the_claim_templates_that_it_knows_as_used(tmp_path):
    now, api = [0.0], Api()
    templates = ClaimTemplates(api, lambda: True, lambda: now[0])
    ensure(templates, request())
    now[0] = 10 * UNUSED_SECONDS
    registry = CollectorRegistry()
    tasks = LeaderTasks(
        api,
        LedgerStore(lambda: now[0]),
        SimpleNamespace(leads=True),
        WatchedPolicies(tmp_path),
        WatchHealth(),
        ControllerOptions(tls_directory=tmp_path, policies=tmp_path),
        ControllerMetrics(registry),
        registry,
        reason_not_to_lead=lambda: None,
        templates=templates,
    )
    assert "claim templates" in [task.name for task in tasks.tasks()]
    now[0] += UNUSED_SECONDS - 1
    asyncio.run(templates.collect())
    assert len(api.stored) == 1
    now[0] += 1
    asyncio.run(templates.collect())
    assert api.stored == {}
