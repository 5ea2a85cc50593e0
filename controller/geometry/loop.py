"""The leader's loop that divides MIG cards on demand.

Every step reads its state from the API: a node's labels, resources and our annotation, pods, and the
ConfigMap. Memory only saves work and time, so a new controller can continue between any two steps. A change
has these steps: write the configuration, wait until the kubelet delivers it to the MIG manager, cordon the
node, check that the card is still idle, set the label, and uncordon when the device plugin shows the new
instances.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from cluster.event_writer import EventWriter
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.geometry.cluster import Cluster, ClusterNode
from controller.geometry.demand import Decision, Demand
from controller.geometry.metrics import GeometryMetrics
from controller.geometry.mig_config import (
    BrokenFileError,
    Division,
    MigConfigFile,
    config_name,
    other_attempt,
)
from controller.geometry.mig_manager import MigManager
from controller.geometry.model import MigNode
from controller.geometry.node_view import Action, change_text, is_idle_for, next_action, target_of
from controller.geometry.pauses import PAUSE_SECONDS, Pauses, time_text
from controller.geometry.planned import PlannedChanges
from controller.geometry.reports import Reports
from controller.watch.ledger_store import LedgerStore
from service.log import get_logger
from service.retry import Backoff

STEP_SECONDS = 2.0
STUCK_SECONDS = 900.0
"""Time the MIG manager may take: it waits five minutes for each GPU client to end."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 15.0, 600.0


@dataclass(frozen=True, slots=True)
class GeometryOptions:
    """The MIG manager's ConfigMap, and how long changes to it take."""

    namespace: str
    config_map: str
    delay_seconds: float = 90.0
    """The kubelet updates a ConfigMap in a pod within its sync period of a minute, plus some delay."""
    step_seconds: float = STEP_SECONDS
    drain_seconds: float = 2.0
    """After the cordon, time until a pod that the scheduler was just binding is seen."""
    pause_seconds: float = PAUSE_SECONDS
    """How long the divided cards of a node stay unchanged after a division."""


@dataclass(slots=True)
class _Attempts:
    """Failed changes of a node."""

    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
    again_at: float = 0.0


class GeometryLoop:
    """Plans changes, and carries out one per node at a time."""

    def __init__(  # noqa: PLR0913 - the last two are replaced in tests only
        self,
        api: ApiServer,
        state: LedgerStore,
        leadership: Leadership,
        metrics: GeometryMetrics,
        options: GeometryOptions,
        *,
        events: EventWriter,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._manager = MigManager(api, options.namespace, options.config_map)
        self._reports = Reports(events)
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._options = options
        self._clock = clock
        self._wall = wall
        self._demand = Demand()
        self._planned = PlannedChanges()
        self._pauses = Pauses(options.pause_seconds)
        self._readable_at: dict[str, float] = {}
        """When the MIG manager can read a configuration, by its name."""
        self._since: dict[tuple[str, str], float] = {}
        """When a cordoned node was first seen in a phase; key: node, and annotation with configuration."""
        self._failed: dict[str, _Attempts] = {}
        self._has_file = False
        """Whether the ConfigMap was seen or created."""
        self._log = get_logger("geometry")

    async def run(self) -> None:
        """Divide cards while this replica leads."""
        await while_leading(self._leadership, self.step, self._options.step_seconds)

    async def step(self) -> None:
        """Read everything once, and do what each node needs next."""
        facts = (node.mig for node in self._state.nodes.values())
        if not any(fact is not None and (fact.is_ours or fact.change) for fact in facts):
            self._metrics.waiting.set(0)
            await self._begin_file()
            return
        try:
            file = await self._manager.read()
            cluster = await Cluster.of(self._state, file.divisions)
        except (ApiError, BrokenFileError, *TRANSPORT_ERRORS) as error:
            self._metrics.errors.inc()
            self._log.warning("the MIG configurations cannot be read", error=str(error))
            return
        self._forget_gone(cluster)
        for node in cluster.nodes:
            await self._guarded(node, self._advance(node, file))
        await self._plan(cluster, file)

    async def _begin_file(self) -> None:
        """Create the ConfigMap if it is missing: the MIG manager's pods do not start without it."""
        if self._has_file or not self._leadership.leads:
            return
        try:
            file = await self._manager.read()
            if self._manager.is_missing:
                await self._manager.write(file)
            self._has_file = True
        except (ApiError, BrokenFileError, *TRANSPORT_ERRORS) as error:
            self._metrics.errors.inc()
            self._log.warning("the ConfigMap of MIG configurations cannot be created", error=str(error))

    def _forget_gone(self, cluster: Cluster) -> None:
        """Drop the state of deleted nodes: a new node may have the same name."""
        names = {node.name for node in cluster.nodes}
        self._pauses.keep(names)
        self._since = {key: at for key, at in self._since.items() if key[0] in names}
        self._failed = {name: each for name, each in self._failed.items() if name in names}

    async def _guarded(self, node: ClusterNode, work: Coroutine[None, None, None]) -> None:
        """Do one node's work; an error does not affect other nodes, and the next step retries it.

        Nothing more is written once another replica may lead, even within a step.
        """
        if not self._leadership.leads:
            work.close()
            return
        try:
            await work
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._metrics.errors.inc()
            self._log.warning("a node cannot be divided now", node=node.name, error=str(error))

    async def _advance(self, node: ClusterNode, file: MigConfigFile) -> None:
        """Do what a node that is cordoned for a change needs next."""
        fact = node.fact
        action = next_action(fact, node.view.card, file.divisions)
        if action is None or fact.change is None:
            return
        target = target_of(fact.change)
        phase = self._since.setdefault((node.name, f"{fact.change} {fact.config}"), self._clock())
        waited = self._clock() - phase
        match action:
            case Action.ASK if waited >= self._options.drain_seconds:
                await self._ask(node, target, file.divisions[target], file.divisions.get(fact.config))
            case Action.WAIT if waited >= STUCK_SECONDS:
                await self._fail(node, target, await self._why_stuck(node.name))
            case Action.FAIL:
                await self._fail(node, target, "the MIG manager says failed: see its log on this node")
            case Action.FINISH:
                self._failed.pop(node.name, None)
                await self._end(node, "succeeded")
                not_before = time_text(self._wall() + self._options.pause_seconds)
                self._reports.divided(node, file.divisions[target], not_before)
            case Action.ABANDON:
                await self._end(node, "abandoned")

    async def _ask(self, node: ClusterNode, target: str, division: Division, before: Division | None) -> None:
        """Set the label, unless an instance that would be removed is now in use."""
        current = node.division
        if current is None and before == division:
            current = division  # A failed change is retried; the driver removes no instance in use.
        held = await self._manager.held(node.name)
        if current is None or not is_idle_for(MigNode(node.name, node.card_or_fail, current, held), division):
            await self._end(node, "abandoned")
            return
        await self._manager.ask(node.name, target)
        self._metrics.changes.labels("started").inc()
        self._log.info("a node is divided", node=node.name, configuration=target)

    async def _why_stuck(self, node: str) -> str:
        """Return why it is stuck, with the labels that keep GPU clients away: the MIG manager leaves them."""
        why = f"the MIG manager has not ended after {STUCK_SECONDS:.0f} s"
        if not (paused := await self._manager.paused(node)):
            return why
        return f"{why}, and keeps clients of the GPUs off by labels, set each to true: {', '.join(paused)}"

    async def _fail(self, node: ClusterNode, target: str, why: str) -> None:
        attempts = self._failed.setdefault(node.name, _Attempts())
        seconds = attempts.backoff.next()
        attempts.again_at = self._clock() + seconds
        await self._end(node, "failed")
        self._log.warning("a node was not divided", node=node.name, error=why, again_in=round(seconds))
        self._reports.failed(node, target, why)

    async def _end(self, node: ClusterNode, result: str) -> None:
        is_divided = result != "abandoned"
        await self._manager.uncordon(node.name, time_text(self._wall()) if is_divided else None)
        self._planned.drop(node.name)
        self._since = {key: at for key, at in self._since.items() if key[0] != node.name}
        self._metrics.changes.labels(result).inc()

    async def _plan(self, cluster: Cluster, file: MigConfigFile) -> None:
        now = self._clock()
        known = {
            node.name: mig
            for node in cluster.nodes
            if (mig := self._for_planner(node, file, now)) is not None
        }
        self._planned.keep(known, cluster.waiting)
        nodes = [self._planned.applied_to(node) for node in known.values()]
        offers = [offer for node in cluster.nodes if (offer := node.offer) is not None]
        # In a thread, because thousands of nodes would block the event loop for too long.
        decision = await asyncio.to_thread(self._demand.decide, cluster.waiting, offers, nodes, now)
        self._planned.add(decision.plan.changes)
        wanted = self._planned.wanted(known) | self._retried(cluster, file)
        await self._write(cluster, file, {name: division for name, (_, division) in wanted.items()})
        for node in cluster.nodes:
            if node.name in wanted and node.fact.change is None:
                await self._guarded(node, self._cordon(node, wanted[node.name][0]))
        await self._report(cluster, decision)

    async def _report(self, cluster: Cluster, decision: Decision) -> None:
        """Report nodes that cannot be divided, and why nothing is divided for pods."""
        self._metrics.show(len(cluster.waiting), decision, self._pauses.count(self._clock()))
        if not self._leadership.leads:
            return
        for node in cluster.nodes:
            if node.fact.is_ours and node.view.problem is not None:
                self._reports.not_divided(node, node.view.problem)
        await self._reports.waiting(cluster, decision, self._pauses.end)

    def _for_planner(self, node: ClusterNode, file: MigConfigFile, now: float) -> MigNode | None:
        """Return a node with its current or coming division; None if it takes no part now."""
        fact, card = node.fact, node.view.card
        paused_until = self._pauses.until(node.name, fact.divided_at, now, self._wall())
        if card is None or not fact.is_ours or node.name in self._failed:
            return None
        target = file.divisions.get(target_of(fact.change)) if fact.change is not None else node.division
        if target is None or (fact.change is None and not node.is_usable):
            return None
        return MigNode(
            node.name,
            card,
            target,
            node.use.instances,
            is_changing=fact.change is not None,
            paused_until=paused_until,
            cpu_free=node.node.cpu_milli - node.use.cpu_milli,
            memory_free=node.node.memory_bytes - node.use.memory_bytes,
        )

    def _retried(self, cluster: Cluster, file: MigConfigFile) -> dict[str, tuple[str, Division]]:
        """Return the failed configurations that are due for a retry, under their other names."""
        due = dict[str, tuple[str, Division]]()
        for node in cluster.nodes:
            fact = node.fact
            division = file.divisions.get(fact.config)
            attempts = self._failed.get(node.name)
            if fact.change is not None or not fact.is_ours:
                continue
            if division is None or fact.state == "success":
                self._failed.pop(node.name, None)
            elif attempts is None:
                # A previous controller saw it fail, or stopped waiting.
                wait = 0.0 if fact.state == "failed" else STUCK_SECONDS
                self._failed[node.name] = _Attempts(again_at=self._clock() + wait)
            elif self._clock() >= attempts.again_at:
                due[node.name] = other_attempt(fact.config), division
        return due

    async def _write(self, cluster: Cluster, file: MigConfigFile, wanted: dict[str, Division]) -> None:
        """Write configurations that the file lacks, and remove those that no node uses."""
        if not self._leadership.leads:
            return
        now, before = self._clock(), set(file.divisions)
        for name in before:
            self._readable_at.setdefault(name, now + self._options.delay_seconds)
        for name, division in wanted.items():
            file.add(name, division)
        if set(file.divisions) == before and not self._manager.is_missing:
            return
        in_use = {config_name(name, division) for name, division in wanted.items()}
        for node in cluster.nodes:
            in_use |= {node.fact.config, target_of(node.fact.change or "")}
        file.keep(in_use)
        try:
            await self._manager.write(file)
        except (ApiError, BrokenFileError, *TRANSPORT_ERRORS) as error:
            self._metrics.errors.inc()
            self._log.warning("the MIG configurations cannot be written", error=str(error))
            return
        self._readable_at = {name: self._readable_at.get(name, self._clock()) for name in file.divisions}
        for name in set(file.divisions) - before:
            self._readable_at[name] = self._clock() + self._options.delay_seconds

    async def _cordon(self, node: ClusterNode, target: str) -> None:
        """Cordon a node if the MIG manager can read its configuration by now."""
        if self._clock() < self._readable_at.get(target, float("inf")) or not node.is_usable:
            return
        await self._manager.cordon(node.name, change_text(node.fact.config, target))
