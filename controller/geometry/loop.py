"""The leader's loop that divides MIG cards on demand.

Every step is read off the API: a node's labels, resources and our annotation, pods, and the ConfigMap. What
is kept in memory only saves work and time, so a controller that ends between any two steps is followed by one
that goes on. A change is: write the configuration, let the kubelet bring it to the MIG manager, cordon the
node, see that the card is idle still, set the label, and take the cordon back when the device plugin shows
the new instances.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from controller.geometry.cluster import Cluster, ClusterNode
from controller.geometry.infeasible import never_fits
from controller.geometry.metrics import GeometryMetrics
from controller.geometry.mig_config import (
    BrokenFileError,
    Division,
    MigConfigFile,
    config_name,
    other_attempt,
)
from controller.geometry.mig_manager import MigManager
from controller.geometry.model import Change, MigNode, MigRequest
from controller.geometry.node_view import Action, change_text, is_idle_for, next_action, target_of
from controller.geometry.planner import plan
from controller.geometry.reports import Reports
from controller.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.leader_loop import while_leading
from controller.leadership import Leadership
from controller.ledger_store import LedgerStore
from ledger.facts import PodKey
from service.log import get_logger
from service.retry import Backoff

STEP_SECONDS = 2.0
STUCK_SECONDS = 900.0
"""For which the MIG manager may be at work: it waits five minutes for each client of the GPUs to end."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 15.0, 600.0


@dataclass(frozen=True, slots=True)
class GeometryOptions:
    """Where the MIG manager's configurations are, and how long it takes until it can read a new one."""

    namespace: str
    config_map: str
    delay_seconds: float = 90.0
    """The kubelet brings a changed ConfigMap to a pod within its sync period of a minute, and some more."""
    step_seconds: float = STEP_SECONDS
    drain_seconds: float = 2.0
    """After the cordon, until a pod that the scheduler was just binding is seen."""


@dataclass(slots=True)
class _Attempts:
    """A node whose change has failed."""

    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
    again_at: float = 0.0


class GeometryLoop:
    """Plans, and carries out one change of each node at a time."""

    def __init__(  # noqa: PLR0913 - the last is replaced in tests only
        self,
        api: ApiServer,
        state: LedgerStore,
        leadership: Leadership,
        metrics: GeometryMetrics,
        options: GeometryOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manager = MigManager(api, options.namespace, options.config_map)
        self._reports = Reports(api)
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._options = options
        self._clock = clock
        self._planned: dict[str, Change] = {}
        self._readable_at: dict[str, float] = {}
        """When the MIG manager can read a configuration, by name."""
        self._since: dict[tuple[str, str], float] = {}
        """When a cordoned node was first seen in a phase: node, and annotation with configuration."""
        self._failed: dict[str, _Attempts] = {}
        self._log = get_logger("geometry")

    async def run(self, turned: Callable[[], None] = lambda: None) -> None:
        """Divide while this replica leads; call `turned` after each step."""
        await while_leading(self._leadership, self.step, self._options.step_seconds, turned)

    async def step(self) -> None:
        """Look at everything once, and do what each node needs next."""
        facts = (node.mig for node in self._state.nodes.values())
        if not any(fact is not None and (fact.is_ours or fact.change) for fact in facts):
            self._metrics.waiting.set(0)
            return
        try:
            file = await self._manager.read()
            cluster = await Cluster.of(self._state, file.divisions)
        except (ApiError, BrokenFileError, *TRANSPORT_ERRORS) as error:
            self._metrics.errors.inc()
            self._log.warning("MIG configurations cannot be read", error=str(error))
            return
        for node in cluster.nodes:
            await self._guarded(node, self._advance(node, file))
        infeasible = await self._report(cluster)
        await self._plan(cluster, file, infeasible)

    async def _guarded(self, node: ClusterNode, work: Awaitable[None]) -> None:
        """One node's trouble is not another's: it is tried again in the next step."""
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
                await self._fail(node, target, f"the MIG manager has not ended after {STUCK_SECONDS:.0f} s")
            case Action.FAIL:
                await self._fail(node, target, "the MIG manager says failed: see its log on this node")
            case Action.FINISH:
                self._failed.pop(node.name, None)
                await self._end(node, "succeeded")
                await self._reports.divided(node, file.divisions[target])
            case Action.ABANDON:
                await self._end(node, "abandoned")

    async def _ask(self, node: ClusterNode, target: str, division: Division, before: Division | None) -> None:
        """Set the label, unless an instance that would go is in use by now."""
        current = node.division
        if current is None and before == division:
            current = division  # What failed is tried again; the driver itself lets no instance in use go.
        held = await self._manager.held(node.name)
        if current is None or not is_idle_for(MigNode(node.name, node.card_or_fail, current, held), division):
            await self._end(node, "abandoned")
            return
        await self._manager.ask(node.name, target)
        self._metrics.changes.labels("started").inc()
        self._log.info("a node is divided", node=node.name, configuration=target)

    async def _fail(self, node: ClusterNode, target: str, why: str) -> None:
        attempts = self._failed.setdefault(node.name, _Attempts())
        seconds = attempts.backoff.next()
        attempts.again_at = self._clock() + seconds
        await self._end(node, "failed")
        self._log.warning("a node was not divided", node=node.name, error=why, again_in=round(seconds))
        await self._reports.failed(node, target, why)

    async def _end(self, node: ClusterNode, result: str) -> None:
        await self._manager.uncordon(node.name)
        self._planned.pop(node.name, None)
        self._since = {key: at for key, at in self._since.items() if key[0] != node.name}
        self._metrics.changes.labels(result).inc()

    async def _report(self, cluster: Cluster) -> set[PodKey]:
        """Say which pods can never run and which nodes cannot be divided; return the former."""
        shapes = [
            MigNode(node.name, node.view.card, ((),) * node.view.cards)
            for node in cluster.nodes
            if node.fact.is_ours and node.view.card is not None
        ]
        infeasible = set[PodKey]()
        for request in cluster.requests:
            if (problem := never_fits(request, shapes)) is not None and not cluster.is_advertised(request):
                infeasible.add(request.key)
                await self._reports.never_fits(cluster.uids[request.key], request, problem)
        for node in cluster.nodes:
            if node.fact.is_ours and node.view.problem is not None:
                await self._reports.not_divided(node, node.view.problem)
        self._metrics.waiting.set(len(cluster.requests))
        self._metrics.infeasible.set(len(infeasible))
        return infeasible

    async def _plan(self, cluster: Cluster, file: MigConfigFile, infeasible: set[PodKey]) -> None:
        requests = [request for request in cluster.requests if request.key not in infeasible]
        known = {
            node.name: mig for node in cluster.nodes if (mig := self._for_planner(node, file)) is not None
        }
        self._keep_planned(known, requests)
        nodes = [self._with_planned(node) for node in known.values()]
        # In a thread: thousands of nodes take longer than a step of the event loop may.
        for change in await asyncio.to_thread(plan, nodes, requests):
            self._planned[change.node] = change
        wanted = {name: self._wanted(known[name], change) for name, change in self._planned.items()}
        wanted |= self._retried(cluster, file)
        await self._write(cluster, file, {name: division for name, (_, division) in wanted.items()})
        for node in cluster.nodes:
            if node.name in wanted and node.fact.change is None:
                await self._guarded(node, self._cordon(node, wanted[node.name][0]))

    def _for_planner(self, node: ClusterNode, file: MigConfigFile) -> MigNode | None:
        """Return a node with the division that it has or will have; None where it takes no part now."""
        fact, card = node.fact, node.view.card
        if card is None or not fact.is_ours or node.name in self._failed:
            return None
        if fact.change is not None:
            target = file.divisions.get(target_of(fact.change))
            return MigNode(node.name, card, target, node.held, is_changing=True) if target else None
        if node.division is None or not node.is_usable:
            return None
        return MigNode(node.name, card, node.division, node.held)

    def _keep_planned(self, known: dict[str, MigNode], requests: list[MigRequest]) -> None:
        """Forget plans for pods that are gone, and those whose card is no longer idle."""
        waiting = {request.key for request in requests}
        self._planned = {
            name: change
            for name, change in self._planned.items()
            if change.request in waiting
            and (node := known.get(name)) is not None
            and (node.is_changing or change.card in node.idle)
        }

    def _with_planned(self, node: MigNode) -> MigNode:
        change = self._planned.get(node.name)
        if change is None or node.is_changing:
            return node
        return replace(node, geometries=_divided(node, change), is_changing=True)

    def _wanted(self, node: MigNode, change: Change) -> tuple[str, Division]:
        """Return the configuration that a plan leads to, by name and content."""
        division = node.geometries if node.is_changing else _divided(node, change)
        return config_name(node.name, division), division

    def _retried(self, cluster: Cluster, file: MigConfigFile) -> dict[str, tuple[str, Division]]:
        """Return the configurations that failed and are due again, under their other names."""
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
                # A controller before this one saw it fail, or gave up waiting.
                wait = 0.0 if fact.state == "failed" else STUCK_SECONDS
                self._failed[node.name] = _Attempts(again_at=self._clock() + wait)
            elif self._clock() >= attempts.again_at:
                due[node.name] = other_attempt(fact.config), division
        return due

    async def _write(self, cluster: Cluster, file: MigConfigFile, wanted: dict[str, Division]) -> None:
        """Write configurations that the file lacks, and drop those that no node names."""
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
            self._log.warning("MIG configurations cannot be written", error=str(error))
            return
        self._readable_at = {name: self._readable_at.get(name, self._clock()) for name in file.divisions}
        for name in set(file.divisions) - before:
            self._readable_at[name] = self._clock() + self._options.delay_seconds

    async def _cordon(self, node: ClusterNode, target: str) -> None:
        """Cordon a node whose configuration the MIG manager can read by now."""
        if self._clock() < self._readable_at.get(target, float("inf")) or not node.is_usable:
            return
        await self._manager.cordon(node.name, change_text(node.fact.config, target))


def _divided(node: MigNode, change: Change) -> Division:
    cards = list(node.geometries)
    cards[change.card] = change.geometry
    return tuple(cards)
