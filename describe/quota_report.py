"""Usage of quotas by namespaces and queues, and their lines, counted from the API server's state."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.listing import list_all
from cluster.object_reader import ConfigMap
from controller.pods.pod_claim import UNANSWERED
from controller.watch.gpu_node import AgentReport, gpu_nodes, with_report
from controller.watch.resources import nodes, pods
from describe.offered_cards import put_slices
from ledger.ledger import Ledger
from ledger.placement_request import Quota
from modes.resource_names import ResourceNames
from policies.loading.loader import parse_policies
from policies.loading.policy_set import PolicySet


@dataclass(frozen=True, slots=True)
class CountedQuota:
    """One quota, the usage of its pods, running and pending, and its line."""

    quota: Quota
    slices: int
    pods: int
    mib: int
    """MiB of GPU memory; a card of unknown memory counts as the largest known one."""
    waiting: int
    """Pods in this quota's line: they wait for it, or for another of their quotas."""


async def read_quotas(api: ApiServer, namespace: str, config_map: str) -> list[CountedQuota]:
    """Return every quota of the policies in a ConfigMap, with its usage.

    Reservations are not included: only the controller knows them. Without the right to list ResourceSlices,
    claims count as the most that they can be.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: ConfigMap, nodes or pods cannot be read.
        PolicyError: the policies are broken.
    """
    policies = await read_stored_policies(api, namespace, config_map)
    ledger = await _ledger(api, policies.resource_names)
    quotas = sorted(policies.quotas(), key=lambda each: (each.scope, each.name))
    waiting = ledger.line.lengths(policies.quotas_of)
    return [_use(ledger, each, waiting.get(each, 0)) for each in quotas]


async def _ledger(api: ApiServer, names: ResourceNames) -> Ledger:
    ledger = Ledger()
    with contextlib.suppress(*UNANSWERED):
        await put_slices(api, ledger.cards)
    facts = [each.fact for each in await list_all(api, nodes(names))]
    reports: dict[str, AgentReport] = {}
    with contextlib.suppress(ApiError, *TRANSPORT_ERRORS):
        reports = {report.node: report for report in await list_all(api, gpu_nodes())}
    of_pods = [each.fact for each in await list_all(api, pods(names))]
    ledger.replace([with_report(fact, reports.get(fact.name), fact.agent) for fact in facts], of_pods)
    return ledger


def _use(ledger: Ledger, quota: Quota, waiting: int) -> CountedQuota:
    used = ledger.used_of(quota)
    return CountedQuota(quota, used.slices, used.pods, used.memory.at_most(ledger.largest_mib()), waiting)


async def read_stored_policies(api: ApiServer, namespace: str, config_map: str) -> PolicySet:
    """Read the policies in a ConfigMap.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it cannot be read.
        PolicyError: the policies are broken.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(config_map, safe='')}"
    data = msgspec.json.decode(await api.request("GET", path), type=ConfigMap).data or {}
    return parse_policies({name: text.encode() for name, text in data.items()})
