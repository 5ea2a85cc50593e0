"""The leader's loop that divides MIG cards on demand.

Every step reads its state from the API: a node's labels, resources and our annotations, pods, and the
ConfigMap. Memory only saves work and time, so a new controller can continue between any two steps. A change
has these steps: write the configuration, wait until the kubelet delivers it to the MIG manager, cordon the
node, check that the card is still idle, set the label, and uncordon when the device plugin shows the new
instances.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, TypeVar

from certs.values import format_time
from cluster.event_writer import EventWriter
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from controller.geometry.cluster import Cluster, ClusterNode
from controller.geometry.mig_config import BrokenFileError, MigConfigFile, config_name, other_attempt
from controller.geometry.mig_manager import MigManager
from controller.geometry.model import Division, MigNode, NewDivision
from controller.geometry.node_view import change_text, ends_of, is_paused
from controller.geometry.planner import Planner, is_still_wanted
from controller.publish.metrics import ControllerMetrics
from controller.watch.ledger_store import LedgerStore
from kube.events import MIG_WAITS, event, event_name
from service.log import get_logger
from service.turns import Pauses

Result = TypeVar("Result")
EventType = Literal["Normal", "Warning"]

STEP_SECONDS = 2.0
PAUSE_SECONDS = 600.0
"""A division costs a node about three minutes without new pods: at most a quarter of its time."""
STUCK_SECONDS = 900.0
"""Time the MIG manager may take: it waits five minutes for each GPU client to end."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 15.0, 600.0
MAX_NAMED = 100
"""Pods that one step writes Events on."""
REQUESTS_SECONDS = 8.0
"""Time for the requests of one node, and for those of the ConfigMap: what they miss, a later step does."""


@dataclass(frozen=True, slots=True)
class GeometryOptions:
    """The MIG manager's ConfigMap, and how long changes to it take."""

    namespace: str
    config_map: str
    delay_seconds: float = 90.0
    """The kubelet updates a ConfigMap in a pod within its sync period of a minute, plus some delay."""
    drain_seconds: float = 2.0
    """After the cordon, time until a pod that the scheduler was just binding is seen."""
    pause_seconds: float = PAUSE_SECONDS
    """How long the divided cards of a node stay unchanged after a division."""


class GeometryLoop:
    """Plans changes, and carries out one per node at a time."""

    def __init__(  # noqa: PLR0913 - the last two are replaced in tests only
        self,
        api: ApiServer,
        state: LedgerStore,
        leadership: Leadership,
        metrics: ControllerMetrics,
        options: GeometryOptions,
        *,
        events: EventWriter,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._manager = MigManager(api, options.namespace, options.config_map)
        self._events = events
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._options = options
        self._clock = clock
        self._wall = wall
        self._planner = Planner(time.thread_time)
        self._planned: dict[str, NewDivision] = {}
        """By node, until it is over."""
        self._readable_at: dict[str, float] = {}
        """When the MIG manager can read a configuration, by its name."""
        self._since: dict[str, tuple[tuple[str | None, str, str], float]] = {}
        """By node: the phase of its change, and when it was first seen in it."""
        self._failed = Pauses[str](FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
        self._log = get_logger("geometry")

    async def run(self) -> None:
        """Divide cards while this replica leads."""
        await while_leading(self._leadership, self.step, STEP_SECONDS)

    async def step(self) -> None:
        """Read everything once, and do what each node needs next."""
        if (file := await self._guarded(self._manager.read())) is None:
            return
        cluster = await Cluster.of(self._state, file.divisions)
        await self._plan(cluster, file)
        await self._work(cluster, file)

    async def _guarded(self, work: Coroutine[None, None, Result], node: str | None = None) -> Result | None:
        """Make some requests; an error, or too little time, is logged, and a later step makes them again.

        Nothing is requested once another replica may lead, even within a step.
        """
        if not self._leadership.leads:
            work.close()
            return None
        try:
            async with asyncio.timeout(REQUESTS_SECONDS):
                return await work
        except (ApiError, BrokenFileError, *TRANSPORT_ERRORS) as error:
            self._metrics.mig_errors.inc()
            self._log.warning("a division of MIG cards has to wait", node=node, error=str(error) or "timeout")
            return None

    async def _plan(self, cluster: Cluster, file: MigConfigFile) -> None:
        """Plan divisions, write their configurations, and report."""
        nodes = {
            node.name: mig for node in cluster.nodes if (mig := self._for_planner(node, file)) is not None
        }
        self._planned = {
            name: new
            for name, new in self._planned.items()
            if is_still_wanted(new, nodes.get(name), cluster.waiting)
        }
        after = [
            replace(node, division=new.division, is_changing=True)
            if (new := self._planned.get(name))
            else node
            for name, node in nodes.items()
        ]
        # In a thread, because thousands of nodes would block the event loop for too long.
        plan = await asyncio.to_thread(self._planner.plan, after, cluster.waiting.values(), self._clock())
        await self._guarded(self._write(cluster, file, plan.divisions))
        self._metrics.mig_waiting.set(len(cluster.waiting))
        for node in cluster.nodes:
            if node.fact.is_ours and node.problem is not None:
                self._on_node(node, "MigNotDivided", f"this node is not divided on demand: {node.problem}")
        for uid, why in islice(plan.unserved.items(), MAX_NAMED):
            namespace, name = cluster.waiting[uid].pod.key
            self._tell({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid}, MIG_WAITS, why)

    def _for_planner(self, node: ClusterNode, file: MigConfigFile) -> MigNode | None:
        """Return a node with its current or coming division; None if it takes no part now."""
        fact, card, seen, use = node.fact, node.card, node.node, node.use
        division = file.divisions.get(ends_of(fact.change)[1]) if fact.change is not None else node.division
        if card is None or division is None or not fact.is_ours or not (fact.change or seen.usable):
            return None
        return MigNode(
            node.name,
            card,
            division,
            use.instances,
            is_changing=fact.change is not None,
            is_paused=is_paused(fact.divided_at, self._options.pause_seconds, self._wall()),
            cpu_free=seen.cpu_milli - use.cpu_milli,
            memory_free=seen.memory_bytes - use.memory_bytes,
            labels=seen.labels,
            taints=seen.taints,
        )

    async def _write(self, cluster: Cluster, file: MigConfigFile, new: Mapping[str, NewDivision]) -> None:
        """Write configurations of new divisions, and remove those that no node uses."""
        before, readable_at = set(file.divisions), self._clock() + self._options.delay_seconds
        in_use = set[str]()
        for name, each in {**self._planned, **new}.items():
            file.add(name, each.division)
            in_use.add(config_name(name, each.division))
        if file.divisions.keys() != before or self._manager.is_missing:
            for node in cluster.nodes:
                in_use |= {node.fact.config, ends_of(node.fact.change)[1]}
            file.keep(in_use)
            await self._manager.write(file)
        self._readable_at = {name: self._readable_at.get(name, readable_at) for name in file.divisions}
        self._planned |= new

    async def _work(self, cluster: Cluster, file: MigConfigFile) -> None:
        """Do what each node needs next: one whose requests get no answer delays no other."""
        before, now = self._since, self._clock()
        self._since = {}
        for node in cluster.nodes:
            phase, known = (node.fact.change, node.fact.config, node.fact.state), before.get(node.name)
            self._since[node.name] = known if known is not None and known[0] == phase else (phase, now)
        self._failed.keep(self._since)
        work = [(node.name, next_) for node in cluster.nodes if (next_ := self._next(node, file)) is not None]
        await asyncio.gather(*[self._guarded(each, name) for name, each in work])

    def _next(self, node: ClusterNode, file: MigConfigFile) -> Coroutine[None, None, None] | None:
        """Return what a node needs next; None if that is to wait.

        A change is read off the node and the ConfigMap, so a new controller can continue it.
        """
        fact, work = node.fact, None
        (before, target), waited = ends_of(fact.change), self._clock() - self._since[node.name][1]
        division = file.divisions.get(target)
        if fact.change is None:
            work = self._cordon(node, file, waited)
        elif not fact.is_ours or division is None or node.card is None or fact.config not in {before, target}:
            # Somebody else has changed the node.
            work = self._end(node, "abandoned")
        elif fact.config == before:
            work = self._ask(node, target, file) if waited >= self._options.drain_seconds else None
        elif fact.state == "failed":
            work = self._fail(node, target, "the MIG manager says failed: see its log on this node")
        elif node.division is not None:
            work = self._finish(node, division)
        elif waited >= STUCK_SECONDS:
            work = self._fail(node, target, _why_stuck(node))
        return work

    def _cordon(
        self, node: ClusterNode, file: MigConfigFile, waited: float
    ) -> Coroutine[None, None, None] | None:
        """Return the cordon of a node whose change can begin: a planned one, or a failed one again."""
        fact, new, now, target = node.fact, self._planned.get(node.name), self._clock(), None
        if new is not None:
            name = config_name(node.name, new.division)
            target = name if now >= self._readable_at.get(name, float("inf")) else None
        elif fact.state == "failed" or (fact.state != "success" and waited >= STUCK_SECONDS):
            # In other states the MIG manager may still be working.
            again = other_attempt(fact.config)
            target = again if again in file.divisions and not self._failed.pauses(node.name, now) else None
        if target is None or not fact.is_ours or not node.node.usable:
            return None
        return self._manager.cordon(node.name, change_text(fact.config, target))

    async def _ask(self, node: ClusterNode, target: str, file: MigConfigFile) -> None:
        """Set the label, unless an instance that would be removed is now in use."""
        card, current, division = node.card, node.division, file.divisions[target]
        if current is None and file.divisions.get(node.fact.config) == division:
            current = division  # A failed change is retried; the driver removes no instance in use.
        held = await self._manager.held(node.name)
        if (
            card is None
            or current is None
            or not MigNode(node.name, card, current, held).is_idle_for(division)
        ):
            await self._end(node, "abandoned")
            return
        await self._manager.ask(node.name, target)
        self._metrics.mig_changes.labels("started").inc()
        self._log.info("a node is divided", node=node.name, configuration=target)

    async def _finish(self, node: ClusterNode, division: Division) -> None:
        await self._end(node, "succeeded")
        self._failed.accepted(node.name)
        counts = Counter(name for names in division for name in names)
        text = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "nothing"
        not_before = self._time(self._options.pause_seconds)
        said = f"divided into {text}, configuration {node.fact.config}; not divided again before {not_before}"
        self._on_node(node, "MigDivided", said, kind="Normal")

    async def _fail(self, node: ClusterNode, target: str, why: str) -> None:
        await self._end(node, "failed")
        self._failed.refused(node.name, self._clock())
        self._log.warning("a node was not divided", node=node.name, error=why)
        self._on_node(node, "MigChangeFailed", f"{why}; configuration {target} is tried again")

    async def _end(self, node: ClusterNode, result: str) -> None:
        is_divided = result != "abandoned"
        await self._manager.uncordon(node.name, self._time() if is_divided else None)
        self._planned.pop(node.name, None)
        self._metrics.mig_changes.labels(result).inc()

    def _time(self, after: float = 0.0) -> str:
        return format_time(datetime.fromtimestamp(self._wall() + after, UTC))

    def _on_node(self, node: ClusterNode, reason: str, message: str, kind: EventType = "Warning") -> None:
        self._tell({"kind": "Node", "name": node.name, "uid": node.uid}, reason, message, kind)

    def _tell(self, on: dict[str, str], reason: str, message: str, kind: EventType = "Warning") -> None:
        """Write an Event; what is still true is written again every hour: API servers keep it as long."""
        now = datetime.now(UTC)
        name = event_name(on["name"], f"{on['uid']} {reason} {message} {now:%Y-%m-%dT%H}")
        self._events.write(event(on, reason, message, name=name, now=now, kind=kind))


def _why_stuck(node: ClusterNode) -> str:
    """Return why it is stuck, with the labels that keep GPU clients away: the MIG manager leaves them."""
    paused = sorted(key for key, value in node.node.labels.items() if value == "paused-for-mig-change")[:12]
    labels = f", and keeps clients of the GPUs off by labels, set each to true: {', '.join(paused)}"
    return f"the MIG manager has not ended after {STUCK_SECONDS:.0f} s{labels if paused else ''}"
