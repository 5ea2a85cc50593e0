"""The leader's loop that taints nodes whose agent does not serve, and removes the taint later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from cluster.kube_client import CHANGED_MEANWHILE, JSON_PATCH, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leader_loop import while_leading
from cluster.leadership import Leadership
from cluster.watch_health import WatchHealth
from controller.publish.metrics import ControllerMetrics
from controller.watch.agent_coverage import AgentPods
from controller.watch.agent_readiness import is_urgent, why_not_ready
from controller.watch.agent_taint import hold_patch, release_patch
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.names import AGENT_TAINT, DEPLOY_CLIENT_LABEL
from service.log import get_logger
from service.turns import Pauses

WRITE_SECONDS = 3.0
"""Timeout of a request: nodes that hang must not use up a step."""
STEP_SECONDS = 1.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 2.0, 60.0
"""Until a request for a node that failed is repeated."""
_LEFT = "its agent left, and pods still use slices of its GPUs"
GRACE_SECONDS = 30.0
"""How long an agent that has served since this boot may report that it is not registered.

After a rolling update, a new policy or a restart of the kubelet, it registers again within some five seconds,
and the kubelet offers no slices meanwhile. A taint would then only stop pods that request no GPU.
"""
Action = Literal["hold", "release", "leave"]


class TaintLoop:
    """Adds and removes our taint on nodes; it changes no other taint.

    Args:
        agents: demands of the DaemonSet's pods; None without a DaemonSet, which removes all taints.
        health: health of the watch of GpuNodes: while it is unhealthy, nothing is changed.
    """

    def __init__(  # noqa: PLR0913 - the last is replaced in tests only
        self,
        api: ApiServer,
        state: LedgerStore,
        leadership: Leadership,
        metrics: ControllerMetrics,
        agents: AgentPods | None,
        *,
        health: WatchHealth,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._agents = agents
        self._health = health
        self._clock = clock
        self._since: dict[str, float] = {}
        """When each node's agent was first seen not to serve."""
        self._turns = Pauses[str](FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        self._log = get_logger("node agents")

    async def run(self) -> None:
        """Add and remove taints while this replica leads."""
        try:
            await while_leading(self._leadership, self.step, STEP_SECONDS)
        finally:
            self._metrics.nodes_held.set(0)

    async def step(self) -> None:
        """Check every node once, and change taints."""
        held = 0
        if self._agents is not None and not (self._state.agents_listed and self._health.fault is None):
            return
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            for node in filter(None, map(self._state.nodes.get, names)):
                held += node.taints.ours is not None
                action, why = self._decided(node)
                if action != "leave":
                    await self._carry_out(node, action, why)
        self._since = {name: at for name, at in self._since.items() if name in self._state.nodes}
        self._turns.keep(self._state.nodes)
        self._metrics.nodes_held.set(held)

    def _decided(self, node: SeenNode) -> tuple[Action, str]:
        name, is_held = node.fact.name, node.taints.ours is not None
        report = self._state.agents.get(name)
        agents, fact = self._agents, node.fact
        if (
            agents is None
            or not (agents.selects or report is not None)
            or not agents.covers(name, fact.labels, fact.taints)
        ):
            return self._decided_without_agent(node, report)
        why = why_not_ready(report, node)
        if why is None:
            self._since.pop(name, None)
            return "release" if is_held else "leave", "its agent serves"
        waited = self._clock() - self._since.setdefault(name, self._clock())
        is_due = is_urgent(report, node) or waited >= GRACE_SECONDS
        return "hold" if is_due and not is_held else "leave", why

    def _decided_without_agent(self, node: SeenNode, report: AgentReport | None) -> tuple[Action, str]:
        """Decide on a node that the DaemonSet does not cover.

        If its agent left while pods use slices of its GPUs, the node is held: another device plugin, such as
        NVIDIA's, does not know of them, and would give their GPUs to other pods.
        """
        name, is_held = node.fact.name, node.taints.ours is not None
        if self._agents is None or report is None or not self._uses_slices(node, report):
            self._since.pop(name, None)
            return ("release", "no agent is meant to run there") if is_held else ("leave", "")
        # By its own names: NVIDIA's device plugin may offer the same cards whole meanwhile.
        if report.is_registered or not any(slices for _, slices in node.fact.gpus):
            self._since.pop(name, None)
            return "leave" if is_held else "hold", _LEFT
        # Its status is outdated, or another plugin offers the same resources: then the scheduler counts on.
        waited = self._clock() - self._since.setdefault(name, self._clock())
        is_over = is_held and waited >= GRACE_SECONDS
        return "release" if is_over else "leave", "another device plugin offers its slices"

    def _uses_slices(self, node: SeenNode, report: AgentReport) -> bool:
        """Whether pods still use slices of the node's agent.

        A paused agent comes back, and with the driver away no other device plugin serves.
        """
        view = self._state.ledger.node(node.fact.name)
        if view is None or node.fact.labels.get(DEPLOY_CLIENT_LABEL, "true") != "true":
            return False
        cards = {index for index, _ in report.cards}
        return any(gpu.held for gpu in view.gpus if gpu.index in cards)

    async def _carry_out(self, node: SeenNode, action: Action, why: str) -> None:
        name, place = node.fact.name, node.taints.ours
        if not self._leadership.leads or self._turns.pauses(name, self._clock()):
            return
        body = hold_patch(node.taints) if place is None else release_patch(place)
        try:
            path = f"/api/v1/nodes/{name}"
            await self._api.request("PATCH", path, body=body, content_type=JSON_PATCH, seconds=WRITE_SECONDS)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            # A node that has changed meanwhile is checked again in its next version.
            if not isinstance(error, ApiError) or error.status not in CHANGED_MEANWHILE:
                self._turns.refused(name, self._clock())
                run = f"kubectl taint nodes {name} {AGENT_TAINT}:NoSchedule" + ("" if place is None else "-")
                self._log.warning("a node's taint is not changed", node=name, error=str(error), run=run)
        else:
            self._turns.accepted(name)
            self._log.info("a node is held" if action == "hold" else "a node is let go", node=name, why=why)
