"""The only writer of the ledger: watched objects go in, placements and views come out.

Everything here runs in the event loop's thread and never blocks, so it needs no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import msgspec

from cluster.watched_resource import WatchedResource
from controller.watch.agent_readiness import why_not_ready
from controller.watch.gpu_node import AgentReport, with_report
from controller.watch.kept_labels import KeptLabels
from controller.watch.resources import SeenNode, SeenPod
from ledger.claimed_cards import CardClaim, OfferedSlice
from ledger.ledger import Ledger
from ledger.messages import NodeState
from ledger.placement_request import PlacementRequest, PlacementResult, Unschedulable
from ledger.use import PodUses
from modes.facts import NodeAgent, PodFact, PodKey
from service.changes import Changes
from service.yielding import FACTS_AT_ONCE, CooperativeYield

Clock = Callable[[], float]
"""Seconds of a monotonic clock."""
LATE_SECONDS = 180.0
"""Until the kubelets and agents of all nodes have changed policies."""
FORGET_SECONDS = 3600.0
"""After the last pod that asked for names in vain, the next one may be the first under another policy."""
QUIET_SECONDS = 75.0
"""A watch reports at least once a minute. After a longer silence, pods may exist that it has not reported."""


class LedgerStore:
    """The ledger, and the readers of its changes."""

    def __init__(self, clock: Clock, pods_known_until: Clock | None = None) -> None:
        """`pods_known_until` returns up to when the watch of pods is complete; None means now."""
        self._clock = clock
        self._pods_known_until = pods_known_until or clock
        self.ledger = Ledger(on_promise=self.mark)
        self.yielding = CooperativeYield()
        self.nodes: dict[str, SeenNode] = {}
        self.pods: dict[PodKey, SeenPod] = {}
        self.synced = asyncio.Event()
        """Set once nodes and pods are listed, so that the ledger is complete."""
        self.watched_nodes: WatchedResource[SeenNode] = WatchedResource(
            key_of=lambda node: ("", node.fact.name),
            keys=lambda: [("", name) for name in self.nodes],
            set=self.set_node,
            remove=lambda key: self.remove_node(key[1]),
            listed=partial(self._is_listed, "nodes"),
            yielding=self.yielding,
        )
        self.watched_pods: WatchedResource[SeenPod] = WatchedResource(
            key_of=lambda pod: pod.fact.key,
            keys=lambda: self.pods,
            set=self.set_pod,
            remove=self.remove_pod,
            listed=partial(self._is_listed, "pods"),
            yielding=self.yielding,
        )
        self.watched_cards: WatchedResource[AgentReport] = WatchedResource(
            key_of=lambda report: ("", report.node),
            keys=lambda: [("", name) for name in self.agents],
            set=self.set_agent,
            remove=lambda key: self.remove_agent(key[1]),
            listed=self._agents_are_listed,
            yielding=self.yielding,
        )
        self.watched_offers: WatchedResource[OfferedSlice] = WatchedResource(
            key_of=lambda found: ("", found.name),
            keys=lambda: [("", name) for name in self.ledger.cards.slice_names],
            set=lambda found: self._cards_changed(self.ledger.put_offer(found)),
            remove=lambda key: self._cards_changed(self.ledger.remove_offer(key[1])),
            listed=self._offers_are_listed,
            yielding=self.yielding,
        )
        self.watched_claims: WatchedResource[CardClaim] = WatchedResource(
            key_of=lambda found: found.key,
            keys=lambda: self.ledger.cards.claim_keys,
            set=lambda found: self._cards_changed(self.ledger.cards.put_claim(found)),
            remove=lambda key: self._cards_changed(self.ledger.cards.remove_claim(key)),
            listed=self._claims_are_listed,
            yielding=self.yielding,
        )
        self.offers_listed = asyncio.Event()
        """Set once the cards that claims can take are listed, or the API server serves no ResourceSlices."""
        self.claims_listed = asyncio.Event()
        """Set once ResourceClaims are listed: until then it is not known what is free of these cards."""
        self._stated: dict[str, SeenNode] = {}
        """Each node by name, without the reports of agents, which `nodes` include."""
        self._labels = KeptLabels(clock)
        self.agents: dict[str, AgentReport] = {}
        """Report of each node's agent; the node itself may not be known yet."""
        self.agents_listed = False
        self.lifted: dict[PodKey, SeenPod] = {}
        """Pods whose gate is being removed, or was, as last watched with it: they count as placed pods."""
        self._in_vain: dict[tuple[str, str], tuple[float, float]] = {}
        """By mode and pool: when pods first asked for names that their nodes do not offer, and when last."""
        self._readers: list[Changes] = []
        self.on_pod: Callable[[SeenPod], None] = lambda _: None
        """Called for each pod that is added or changed."""
        self._unlisted = {"nodes", "pods"}
        self._changes = 0

    @property
    def missing(self) -> str | None:
        """What has not been listed yet; None if the ledger is complete."""
        return f"{' and '.join(sorted(self._unlisted))} not listed yet" if self._unlisted else None

    def subscribe(self) -> Changes:
        """Start to record changes for one reader, with every node as changed; ends with `unsubscribe`."""
        changes = Changes()
        for name in self.nodes:
            changes.mark(name)
        self._readers.append(changes)
        return changes

    def unsubscribe(self, changes: Changes) -> None:
        """Remove a reader; the inverse of `subscribe`."""
        self._readers.remove(changes)

    def place(self, ask: PlacementRequest) -> PlacementResult:
        """Place one request in the ledger; it waits for names that its nodes do not offer since a moment."""
        now, key = self._clock(), (ask.share.mode, ask.share.pool)
        found = self.ledger.place(ask, now, self._known_until())
        if isinstance(found, Unschedulable) and found.lacks_names:
            # That others are placed says nothing: their nodes may offer these names, and its own never.
            recent = {each: at for each, at in self._in_vain.items() if now - at[1] < FORGET_SECONDS}
            first, _ = recent.get(key, (now, now))
            self._in_vain = recent | {key: (first, now)}
            if now - first < LATE_SECONDS:
                return self.ledger.place(ask.with_demands(awaits_names=True), now, self._known_until())
        return found

    def expire(self) -> bool:
        """End expired reservations, and count claims again, as many as one step may.

        Return whether more may be left.
        """
        is_left = self.ledger.expire(self._clock(), self._known_until())
        return self.ledger.count_again() or is_left

    def _known_until(self) -> float:
        """Return up to when pods are known: now, unless the watch has been silent for too long."""
        now, reported = self._clock(), self._pods_known_until()
        return now if now - reported <= QUIET_SECONDS else reported

    def node_state(self, name: str) -> NodeState | None:
        """One node with GPUs, without cards of DRA drivers; None if there is none of this name."""
        view = self.ledger.node(name)
        free = self.ledger.room(name)
        node = self.nodes.get(name)
        if view is None or free is None or node is None or not node.fact.has_gpus:
            return None
        return NodeState(node.fact, replace(view, cards=()), *free)

    def mark(self, node: str | None) -> None:
        """Record a change of a node (None: of the backlog) for every reader."""
        for reader in self._readers:
            reader.mark(node)

    def use(self, node: str) -> PodUses:
        """Return what pods use on a node; nothing if its agent does not measure it."""
        report = self.agents.get(node)
        return report.use if report is not None else PodUses()

    def _update_totals(self) -> None:
        """Do work of the next decision now, once there are enough changes to make it slow."""
        self._changes += 1
        if self._changes >= FACTS_AT_ONCE:
            self._changes = 0
            self.ledger.totals()
            self.ledger.card_totals()

    async def _is_listed(self, resource: str) -> None:
        self.listed(resource)

    def listed(self, resource: str) -> None:
        """Record that a resource has been listed."""
        self._unlisted.discard(resource)
        if not self._unlisted:
            self.synced.set()

    def set_node(self, node: SeenNode) -> None:
        """Add or change a node; the inverse of `remove_node`."""
        name = node.fact.name
        self._stated[name] = node
        node = self._with_report(self._labels.kept(node))
        if self.nodes.get(name) == node:
            return
        self.nodes[name] = node
        self.ledger.set_node(node.fact)
        self.mark(name)
        self._update_totals()

    def set_agent(self, report: AgentReport) -> None:
        """Set the report of a node's agent; the inverse of `remove_agent`."""
        before = self.agents.get(report.node)
        self.agents[report.node] = report
        self._set_again(report.node)
        shown = (report.uses, report.unhealthy)
        if ((before.uses, before.unhealthy) if before is not None else (None, ())) != shown:
            for reader in self._readers:
                if reader.follows_uses:
                    reader.mark(report.node)

    def remove_agent(self, name: str) -> None:
        """Remove the report of a node's agent."""
        self.agents.pop(name, None)
        self._set_again(name)

    async def _agents_are_listed(self) -> None:
        if self.agents_listed:
            return
        self.agents_listed = True
        async for names in self.yielding.batches(list(self.nodes.keys() - self.agents.keys())):
            for name in names:
                self._set_again(name)

    def _cards_changed(self, nodes: Collection[str]) -> None:
        """Mark nodes whose cards, or the claims of these, have changed."""
        self.ledger.note_cards(nodes)
        for name in nodes:
            for reader in self._readers:
                if reader.follows_cards:
                    reader.mark(name)
            self._update_totals()

    async def _offers_are_listed(self) -> None:
        # Quotas must not count claims as if there were no cards once they decide.
        while self.ledger.count_again():
            await self.yielding.step()
        self.offers_listed.set()

    async def _claims_are_listed(self) -> None:
        self.claims_listed.set()

    def _set_again(self, name: str) -> None:
        node = self._stated.get(name)
        if node is not None:
            self.set_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        if self.nodes.pop(name, None) is not None:
            del self._stated[name]
            self._labels.forget(name)
            self.ledger.remove_node(name)
            self.mark(name)
            self._update_totals()

    def set_pod(self, pod: SeenPod) -> None:
        """Add or change a pod; the inverse of `remove_pod`."""
        pod = self._as_lifted(pod)
        fact = pod.fact
        before = self.pods.get(fact.key)
        if before == pod:
            return
        self.pods[fact.key] = pod
        if before is None or before.fact != fact:
            self.ledger.set_pod(fact)
            self._mark_pod(before.fact if before else None)
            self._mark_pod(fact)
            self._update_totals()
        self.on_pod(pod)

    def lift(self, key: PodKey) -> None:
        """Count a waiting pod in its quotas from now on, before its gate is removed; ends with `put_back`."""
        pod = self.pods.get(key)
        if pod is not None and pod.fact.quota_wait is not None:
            self.lifted[key] = pod
            self.set_pod(pod)

    def put_back(self, key: PodKey, *, is_held: bool = False) -> None:
        """Let a pod wait again: its gate was certainly not removed.

        If `is_held`, it neither goes nor stops others until the line's `resume`.
        """
        pod = self.lifted.pop(key, None)
        if pod is not None and key in self.pods:
            self.set_pod(pod)
        if is_held:
            self.ledger.line.hold(key)

    def _as_lifted(self, pod: SeenPod) -> SeenPod:
        """Return a pod without the gate that it may have lost: an earlier state may arrive late."""
        key, wait = pod.fact.key, pod.fact.quota_wait
        lifted = self.lifted.get(key)
        if lifted is None:
            return pod
        former = lifted.fact.quota_wait
        if wait is None or former is None or former.uid != wait.uid:
            del self.lifted[key]
            return pod
        self.lifted[key] = pod
        fact = msgspec.structs.replace(pod.fact, quota_wait=None)
        return msgspec.structs.replace(pod, fact=fact)

    def remove_pod(self, key: PodKey) -> None:
        """Remove a pod."""
        self.lifted.pop(key, None)
        known = self.pods.pop(key, None)
        if known is not None:
            self.ledger.remove_pod(key)
            self._mark_pod(known.fact)
            self._update_totals()

    def _mark_pod(self, fact: PodFact | None) -> None:
        if fact is not None and (fact.slices or fact.node):
            self.mark(fact.node or fact.promised_node)

    def _with_report(self, node: SeenNode) -> SeenNode:
        """Return the node with its agent's report, and the agent's state."""
        report = self.agents.get(node.fact.name)
        agent: NodeAgent = "away"
        if report is None:
            # Until all agents are listed it may have one: its pods wait, and are not denied.
            agent = "missing" if self.agents_listed else "away"
        elif why_not_ready(report, node) is None:
            agent = "serving"
        fact = with_report(node.fact, report, agent)
        return node if fact is node.fact else msgspec.structs.replace(node, fact=fact)
