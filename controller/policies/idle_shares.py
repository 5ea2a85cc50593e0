"""Pods whose share is idle, by the reports of the nodes' agents and by their policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from controller.watch.ledger_store import LedgerStore
from ledger.use import PodUses, ShareUse, UseKey, seconds_of
from modes.facts import PodKey
from policies.model.effective import IdleRule

IdleRuleOf = Callable[[str, tuple[str, ...]], IdleRule | None]
"""Returns the rule for pods of a namespace with these queue keys; None if there is none."""


@dataclass(frozen=True, slots=True)
class IdlePod:
    """A pod none of whose kernels was seen for longer than its policy allows. Times are those of its node."""

    key: PodKey
    uid: str
    node: str
    slices: int
    """As quotas count them."""
    idle_since: int
    """In seconds since 1970."""
    measured: int
    """When its agent last saw that, likewise."""
    rule: IdleRule

    @property
    def seconds(self) -> int:
        """How long it was idle when that was measured."""
        return self.measured - self.idle_since


class IdleShares:
    """Finds idle pods in what the controller watches."""

    def __init__(self, state: LedgerStore, rule_of: IdleRuleOf) -> None:
        self._state = state
        self._rule_of = rule_of

    def on_node(self, node: str) -> list[IdlePod]:
        """Return the idle pods of one node, as last reported. Only injected pods that run there are named."""
        report = self._state.agents.get(node)
        measured = (
            seconds_of(report.uses.measured) if report is not None and report.uses is not None else None
        )
        if measured is None:
            return []
        uses = self._state.use(node).by_pod.items()
        found = [self._idle(key, node, use, measured) for key, use in uses if key[2] is None]
        return [pod for pod in found if pod is not None]

    def _idle(self, key: UseKey, node: str, use: ShareUse, measured: int) -> IdlePod | None:
        pod = self._state.pods.get(key[:2]) if use.idle_seconds is not None else None
        if pod is None or use.idle_seconds is None or pod.fact.node != node or pod.fact.is_over:
            return None
        rule, injected = self._rule_of(key[0], pod.fact.queues), pod.injected
        if rule is None or injected is None or injected.injected is None or injected.running_since is None:
            return None
        # A share is held while images are pulled and init containers run; and a former pod of the same name
        # may have been idle, too.
        since = max(measured - use.idle_seconds, seconds_of(pod.created) or 0, injected.running_since)
        if measured - since < rule.after_seconds:
            return None
        slices = self._state.ledger.counted_slices(node, key[:2])
        return IdlePod(key[:2], injected.uid, node, slices, since, measured, rule)

    def use(self, node: str) -> PodUses:
        """Return what pods use on a node; only those that are idle by their policy have `idle_seconds`."""
        idle = {pod.key: pod.seconds for pod in self.on_node(node)}
        use = self._state.use(node)
        marked = {key: replace(each, idle_seconds=idle.get(key[:2])) for key, each in use.by_pod.items()}
        return replace(use, by_pod=marked)
