"""Tasks of the leader: publish, report, divide cards, taint nodes, evict idle pods, renew certificates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from prometheus_client import CollectorRegistry

from certs.rotation import RotationSettings
from cluster.event_writer import EventWriter
from cluster.kube_client import ApiServer
from cluster.leader_loop import STEP_SECONDS, while_leading
from cluster.leadership import Leadership
from cluster.watch_health import WatchHealth
from controller.certificates.loop import BundleLoop, CertificateLoop
from controller.certificates.metrics import CertificateMetrics
from controller.certificates.store import CertificateStore, Installation, issued_names
from controller.claims.claim_templates import COLLECT_SECONDS, ClaimTemplates
from controller.geometry.loop import GeometryLoop, GeometryOptions
from controller.node_agents.audit import Audit
from controller.node_agents.taint_loop import TaintLoop
from controller.options import ControllerOptions
from controller.policies.idle_shares import IdleShares
from controller.policies.policy_delivery import PolicyDelivery
from controller.policies.policy_events import PolicyEvents
from controller.policies.watched_policies import WatchedPolicies
from controller.publish.gpu_ledger_writer import GpuLedgerWriter
from controller.publish.metrics import ControllerMetrics
from controller.publish.pod_events import PodEvents
from controller.quota_gates.gate_removal import GateRemoval
from controller.quota_gates.loop import QuotaGateLoop
from controller.use.eviction import IdleEviction
from controller.use.history_loop import UseHistoryLoop
from controller.use.idle_loop import IdleLoop
from controller.use.store import UseStore
from controller.watch.ledger_store import LedgerStore
from service.background import BackgroundTask


@dataclass(slots=True)
class LeaderTasks:
    """Creates the leader's tasks, once for each term."""

    api: ApiServer
    state: LedgerStore
    leadership: Leadership
    policies: WatchedPolicies
    watch_of_cards: WatchHealth
    options: ControllerOptions
    metrics: ControllerMetrics
    registry: InitVar[CollectorRegistry]
    """Gets the metrics of certificates."""
    _: KW_ONLY
    reason_not_to_lead: Callable[[], str | None]
    """Returns why another replica should lead instead; None if none should."""
    templates: ClaimTemplates | None = None
    """Templates of claims; None if no policy has a mode of claims."""
    _certificate_metrics: CertificateMetrics = field(init=False)
    _event_writer: EventWriter = field(init=False)
    _events: PodEvents = field(init=False)
    _quota_gates: QuotaGateLoop = field(init=False)
    _ledger_writer: GpuLedgerWriter | None = field(init=False, default=None)

    def __post_init__(self, registry: CollectorRegistry) -> None:
        self._certificate_metrics = CertificateMetrics(registry)
        self._event_writer = EventWriter(self.api, self.metrics.events_lost.inc)
        self._events = PodEvents(
            self.api,
            self.state,
            self.leadership,
            self.metrics,
            self.options.names,
            events=self._event_writer,
            quotas_of=self.policies.quotas_of,
        )
        # It outlives terms, because it remembers requests without an answer.
        self._quota_gates = QuotaGateLoop(
            GateRemoval(self.api, self._event_writer, self.metrics),
            self.state,
            self.leadership,
            self.policies,
            reason_not_to_lead=self.reason_not_to_lead,
        )

    @property
    def behind(self) -> str | None:
        """Why GpuLedgers are not written; None if they are."""
        return self._ledger_writer.behind if self._ledger_writer is not None else None

    def tasks(self) -> list[BackgroundTask]:
        """Return the tasks that run while this replica leads; called at the start of each term."""
        given = self.state, self.leadership, self.metrics
        taints = TaintLoop(self.api, *given, self.options.agents, health=self.watch_of_cards)
        return [
            BackgroundTask("publishing", self._publish),
            BackgroundTask("event writer", self._event_writer.run),
            BackgroundTask("events", self._events.run),
            BackgroundTask("quota gates", self._quota_gates.run, STEP_SECONDS),
            *self._of_claims(),
            *self._of_policies(),
            *self._of_geometry(),
            BackgroundTask("node holding", taints.run, STEP_SECONDS),
            BackgroundTask("audit", Audit(self._event_writer, *given).run, STEP_SECONDS),
            *self._of_use(),
            *self._of_certificates(),
        ]

    async def _publish(self) -> None:
        self._ledger_writer = GpuLedgerWriter(self.api, self.state, self.leadership, self.metrics)
        await self._ledger_writer.run()

    def _of_claims(self) -> Iterator[BackgroundTask]:
        if self.templates is not None:
            self.templates.start_term()
            yield self._repeated("claim templates", self.templates.collect, COLLECT_SECONDS)

    def _of_policies(self) -> Iterator[BackgroundTask]:
        if (name := self.options.policies_config_map) is not None:
            namespace = self.options.namespace
            events = PolicyEvents(self.api, self._event_writer, self.policies)
            yield self._repeated(
                "policy events", lambda: events.check(namespace, name, datetime.now(UTC)), 10.0
            )
            delivery = PolicyDelivery(self.api, namespace, name)
            yield self._repeated("policy delivery", delivery.check, 1.0)

    def _repeated(self, name: str, check: Callable[[], Awaitable[None]], seconds: float) -> BackgroundTask:
        """Repeat a check, with a heartbeat and a pause of `seconds`, while this replica leads."""
        loop = partial(while_leading, self.leadership, check, seconds)
        return BackgroundTask(name, loop, STEP_SECONDS)

    def _of_geometry(self) -> Iterator[BackgroundTask]:
        options = self.options
        if options.mig_config_map is not None:
            how = GeometryOptions(
                *options.mig_config_map, options.mig_config_delay, pause_seconds=options.mig_pause
            )
            given = self.api, self.state, self.leadership, self.metrics
            loop = GeometryLoop(*given, how, events=self._event_writer)
            yield BackgroundTask("MIG geometry", loop.run, STEP_SECONDS)

    def _of_use(self) -> Iterator[BackgroundTask]:
        name = self.options.use_config_map
        store = UseStore(self.api, self.options.namespace, name) if name is not None else None
        idle = IdleLoop(
            IdleEviction(self.api, self._event_writer, self.leadership, self.metrics),
            store,
            self.state,
            IdleShares(self.state, self.policies.idle_rule),
            self.leadership,
            metrics=self.metrics,
            reason_not_to_lead=self.reason_not_to_lead,
        )
        yield BackgroundTask("idle shares", idle.run, STEP_SECONDS)
        if store is not None:
            history = UseHistoryLoop(store, self.state, self.leadership)
            yield BackgroundTask("use history", history.run, STEP_SECONDS)

    def _of_certificates(self) -> Iterator[BackgroundTask]:
        options, leadership = self.options, self.leadership
        name = options.issue_certificates or options.inject_ca
        if name is None:
            return
        installation = Installation(options.namespace, name, options.webhook_endpoints)
        store, metrics = CertificateStore(self.api, installation), self._certificate_metrics
        if options.issue_certificates is None:
            bundle = BundleLoop(store, leadership, metrics, options.tls_directory)
            yield BackgroundTask("caBundle", bundle.run, STEP_SECONDS)
            return
        names = issued_names(installation, options.tls_names)
        rotation = RotationSettings(
            settle=timedelta(seconds=options.ca_settle),
            keep_previous=timedelta(seconds=options.ca_keep),
            retry=timedelta(seconds=options.ca_retry),
        )
        loop = CertificateLoop(store, leadership, metrics, names, rotation)
        yield BackgroundTask("certificates", loop.run, STEP_SECONDS + options.ca_retry)
