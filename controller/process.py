"""The controller process: assembles watches, ledger, election, publishing and servers."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar, get_args

from anyio.lowlevel import checkpoint
from fastapi import Response

from certs.mounted import POLL_SECONDS, MountedCertificate, MountRules
from cluster.informer import Watcher
from cluster.kube_client import ApiServer, connected
from cluster.leadership import Candidate, Leadership, LeaseTiming
from cluster.listing import Resource
from cluster.watch_health import WatchHealth
from cluster.watched_resource import WatchedResource
from controller.claims.claim_templates import ClaimTemplates
from controller.claims.template_objects import templates
from controller.leader_tasks import LeaderTasks
from controller.options import ControllerOptions
from controller.placement_api import ControllerApi
from controller.pods.pod_demands import DemandsReader
from controller.policies.watched_policies import WatchedPolicies
from controller.publish import gpu_metrics, page
from controller.publish.gpu_metrics import GpuMetrics
from controller.publish.metrics import ControllerMetrics, LedgerCollector
from controller.publish.usage_metrics import UsageCollector
from controller.watch.card_claims import card_claims
from controller.watch.claim_cards import offered_slices
from controller.watch.gpu_node import gpu_nodes
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from policies.loading.reload import RELOAD_SECONDS
from service.background import BackgroundTask, beat
from service.health import health_app
from service.http.serving import Listener
from service.http.sockets import bind
from service.metrics import CONTENT_TYPE, PolicyMetrics
from service.options import LOOPBACK
from service.process import Process
from service.served_certificate import ServedCertificate
from web.page import Page

Item = TypeVar("Item")
EXPIRY_SECONDS = 1.0
SLICES_SECONDS = 5.0
"""How long a replica that has just started waits for ResourceSlices before it may lead."""
Task = Literal[
    "watch of nodes",
    "watch of pods",
    "watch of cards",
    "watch of claimable cards",
    "watch of claims",
    "watch of claim templates",
    "reservations",
    "mounted certificate",
    "policies",
    "election",
    "leader",
    "publishing",
    "claim templates",
    "event writer",
    "events",
    "quota gates",
    "policy events",
    "policy delivery",
    "MIG geometry",
    "node holding",
    "audit",
    "idle shares",
    "use history",
    "certificates",
    "caBundle",
]
"""Background tasks of a controller, which are restarted when they fail."""


async def run_controller(options: ControllerOptions) -> None:
    """Watch, lead and serve until SIGTERM or SIGINT.

    Raises:
        NoApiServerError: the API server cannot be found.
        OSError: an address to listen on is not available.
    """
    async with connected(options.kubeconfig) as api:
        await ControllerProcess(options, api).serve()


class ControllerProcess:
    """One controller, from its start until it has drained."""

    def __init__(self, options: ControllerOptions, api: ApiServer) -> None:
        self._options = options
        self._api = api
        self._process = Process("controller", get_args(Task), options.stop_delay)
        self._registry, self._log = self._process.registry, self._process.log
        self._withdrawal: asyncio.Future[None] | None = None
        self._metrics = ControllerMetrics(self._registry)
        self._certificate = self._mounted_certificate()
        self._socket = bind(options.host, options.port)
        self._health_socket = bind(options.host, options.health_port)
        self._watches = {"nodes": WatchHealth(), "pods": WatchHealth()}
        self._watch_of_cards = WatchHealth()
        self._state = LedgerStore(time.monotonic, lambda: self._watches["pods"].known_until)
        timing = LeaseTiming(options.lease_duration, options.renew_deadline, options.lease_retry)
        self._leadership = Leadership(
            api, self._candidate(), timing, reason_not_to_lead=self._reason_not_to_lead
        )
        self._policies = WatchedPolicies(options.policies)
        self._templates = (
            ClaimTemplates(api, lambda: self._leadership.leads, time.monotonic)
            if options.claim_templates
            else None
        )
        self._leader = LeaderTasks(
            api,
            self._state,
            self._leadership,
            self._policies,
            self._watch_of_cards,
            options,
            self._metrics,
            self._registry,
            reason_not_to_lead=self._reason_not_to_lead,
            templates=self._templates,
        )
        self._served = ControllerApi(
            self._state, self._leadership, self._metrics, self._policies.last_good, templates=self._templates
        )
        self._page = self._shown() if options.page else None
        self._page_socket = bind(LOOPBACK, options.page_port) if options.page else None
        self._registry.register(LedgerCollector(self._state))
        policies = self._policies
        given = policies.quotas, policies.queues, policies.quotas_of
        self._registry.register(UsageCollector(self._state.ledger, *given))
        self._registry.register(PolicyMetrics(lambda: policies.digest, lambda: policies.since))
        self._metrics_of_gpus = GpuMetrics(self._state, lambda: self._leadership.leads)
        self._metrics.leading.set_function(lambda: self._leadership.leads)
        self._process.ready_when(
            certificate=lambda: self._certificate.missing,
            ledger=lambda: self._state.missing,
        )
        for name, health in self._watches.items():
            self._metrics.watch_well.labels(name).set_function(partial(_is_well, health))

    @property
    def ports(self) -> tuple[int, int]:
        """Ports of the API and of the plain listener."""
        return self._socket.getsockname()[1], self._health_socket.getsockname()[1]

    @property
    def page_port(self) -> int | None:
        """Port of the page; None if it is not served."""
        return self._page_socket.getsockname()[1] if self._page_socket is not None else None

    @property
    def leads(self) -> bool:
        """Whether it may place now."""
        return self._leadership.leads

    async def serve(self) -> None:
        """Run everything until SIGTERM or SIGINT, then release the lease."""
        # Otherwise Starlette's first streaming response would load this part of anyio: 70 ms in one step.
        await checkpoint()
        # Loaded modules live as long as the process: no full garbage collection has to walk them.
        gc.freeze()
        health = health_app(self._process.router(self._detail))
        health.add_api_route(gpu_metrics.PATH, self._gpu_metrics, response_class=Response)
        listeners = [
            Listener(
                self._served.app(),
                self._socket,
                self._certificate.context.listener,
                clients=frozenset(self._options.client_names),
            ),
            Listener(health, self._health_socket, role="health"),
        ]
        if self._page is not None and self._page_socket is not None:
            listeners.append(Listener(self._page, self._page_socket, role="page"))
        await self._process.serve(
            listeners,
            self._tasks(),
            background=[self._stand_for_election()],
            on_stopping=self._withdraw,
            last=self._withdrawn,
        )

    def _tasks(self) -> list[BackgroundTask]:
        names, state, health = self._options.names, self._state, self._watches
        seen_pods = pods(names, with_mig=self._options.mig_config_map is not None)
        tasks = [
            self._watch("watch of nodes", nodes(names), state.watched_nodes, health["nodes"]),
            self._watch("watch of pods", seen_pods, state.watched_pods, health["pods"]),
            self._watch("watch of cards", gpu_nodes(), state.watched_cards, self._watch_of_cards),
            BackgroundTask("reservations", self._expire, EXPIRY_SECONDS),
            BackgroundTask("mounted certificate", partial(self._certificate.follow, beat), POLL_SECONDS),
            BackgroundTask("policies", partial(self._policies.watch, beat), RELOAD_SECONDS),
        ]
        if self._templates is not None:
            tasks += [
                self._watch("watch of claimable cards", offered_slices(), state.watched_offers),
                self._watch("watch of claims", card_claims(), state.watched_claims),
                self._watch("watch of claim templates", templates(), self._templates.watched),
            ]
        return tasks

    def _watch(
        self,
        name: str,
        resource: Resource[Item],
        watched: WatchedResource[Item],
        health: WatchHealth | None = None,
    ) -> BackgroundTask:
        silence = self._options.watch_silence
        watcher = Watcher(self._api, resource, watched, self._metrics, silence_seconds=silence, health=health)
        return BackgroundTask(name, watcher.run)

    async def _stand_for_election(self) -> None:
        """Run for leader once the ledger is complete; run the leader's tasks while leading."""
        await self._state.synced.wait()
        await self._wait_for_slices()
        keep, period = self._process.tasks.keep, self._options.lease_duration
        async with asyncio.TaskGroup() as group:
            group.create_task(keep(BackgroundTask("election", self._leadership.run, period)))
            group.create_task(keep(BackgroundTask("leader", self._lead)))

    async def _wait_for_slices(self) -> None:
        """Wait until it is known what claims hold of cards: otherwise they would be published as free."""
        if self._templates is None:
            return
        try:
            async with asyncio.timeout(SLICES_SECONDS):
                await self._state.offers_listed.wait()
                await self._state.claims_listed.wait()
        except TimeoutError:
            self._log.warning("ResourceSlices and ResourceClaims are not listed yet: they do not count")

    async def _lead(self) -> None:
        """Run the leader's loops, term after term."""
        while True:
            await self._leadership.gained.wait()
            loops = [asyncio.create_task(self._process.tasks.keep(task)) for task in self._leader.tasks()]
            try:
                await self._leadership.until_over()
            finally:
                for loop in loops:
                    loop.cancel()
                await asyncio.wait(loops)

    async def _expire(self) -> None:
        while True:
            beat()
            await asyncio.sleep(EXPIRY_SECONDS)
            while self._state.expire():
                # A node may change the sizes of its cards again and again, so that this never ends.
                beat()
                await self._state.yielding.step()

    def _mounted_certificate(self) -> MountedCertificate:
        directory = self._options.tls_directory
        report = ServedCertificate(self._registry, str(directory))
        rules = MountRules(self._options.tls_names)
        return MountedCertificate(directory, rules, report.served, report.refused, verify_clients=True)

    async def _gpu_metrics(self) -> Response:
        return Response(await self._metrics_of_gpus.text(), headers={"content-type": CONTENT_TYPE})

    def _shown(self) -> Page:
        """Create the page, which only this machine can reach."""
        names, denials = self._options.names, self._served.denials
        demands = DemandsReader(self._api).of
        reasons = page.WaitingReasons(self._state, names, demands, self._policies.quotas_of)
        facts = page.about(self._state, self._role, reasons, self._policies, denials)
        facts = replace(facts, cluster=self._options.cluster_name, links=self._options.page_links)
        return Page(self._state, facts)

    def _role(self) -> str:
        leadership = self._leadership
        if leadership.leads:
            return f"leading in term {leadership.transition}"
        return f"standing by; leader: {leadership.leader or 'none'}"

    def _detail(self) -> str:
        """Details for /readyz. None of them makes a replica unready: it serves with what it knows."""
        leadership = self._leadership
        away = leadership.failure and f"the API server is out of reach: {leadership.failure}"
        behind = self._leader.behind if leadership.leads else None
        faults = away, self._reason_not_to_lead(), behind, self._policies.detail
        return "; ".join(filter(None, [self._role(), *faults]))

    def _reason_not_to_lead(self) -> str | None:
        """Why another replica should lead: an unhealthy watch."""
        faults = [
            f"watch of {name}: {why}" for name, health in self._watches.items() if (why := health.fault)
        ]
        return "; ".join(faults) or None

    def _candidate(self) -> Candidate:
        port, _ = self.ports
        address = self._options.advertise or f"https://{self._options.host}:{port}"
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        return Candidate(self._options.namespace, self._options.lease, identity, address)

    def _withdraw(self) -> None:
        """Release the lease now, before the delay: another replica leads before this one ends."""
        self._withdrawal = asyncio.ensure_future(self._leadership.withdraw())
        self._served.stop_streams()
        if self._page is not None:
            self._page.stop()

    async def _withdrawn(self) -> None:
        await (self._withdrawal or self._leadership.withdraw())


def _is_well(health: WatchHealth) -> bool:
    return health.fault is None
