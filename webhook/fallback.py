"""Placing while the controller cannot be asked: from the last that it streamed, or from what is assumed.

Nothing here is exact: two webhooks may choose the same slices. The scheduler and the kubelet refuse a ninth
one, so that the later pod waits. What cannot be told at all is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from ledger.ask import Answer, Ask, Misfit, OverQuota, Placement
from ledger.facts import PodFact, PodKey
from ledger.ledger import Ledger
from ledger.view import Waiting
from ledger.wire import NodeState
from webhook.placer import Unanswered
from webhook.reasons import Reason


class Fallback:
    """A ledger of what the controller last said."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._backlog: dict[PodKey, PodFact] = {}
        self._nodes: set[str] = set()
        self._known = False

    def place(self, ask: Ask) -> Answer | Unanswered:
        """Decide an ask, marked as degraded."""
        shut = next((quota for quota in ask.quotas if 0 in {quota.slices, quota.max_pods}), None)
        if shut is not None:
            # Nothing has to be counted for that.
            return OverQuota(shut, 0, 1, 0, "pods" if shut.max_pods == 0 else "slices")
        if ask.quotas and ask.quotas_when_degraded == "deny":
            quota = ask.quotas[0]
            why = f'quota of {quota.scope} "{quota.name}" cannot be counted while the controller is away'
            return Unanswered(Reason.QUOTA_UNKNOWN, f"{why}: try again")
        answer = self._ledger.place(msgspec.structs.replace(ask, quotas=()), self._clock())
        if isinstance(answer, Placement):
            return msgspec.structs.replace(answer, degraded=True)
        if isinstance(answer, Misfit) and not self._known:
            why = "the controller cannot be reached, and the policy assumes nothing of the nodes: try again"
            return Unanswered(Reason.NO_CONTROLLER, why)
        return answer

    def release(self, reservation: str) -> None:
        """Give back what was reserved here."""
        self._ledger.release(reservation)

    @property
    def is_known(self) -> bool:
        """Whether the controller has said once what it knows."""
        return self._known

    def nodes(self) -> int:
        """How many nodes the controller knew of."""
        return len(self._nodes)

    def used(self) -> int:
        """Slices in someone's hands on all nodes."""
        return sum(gpu.used for node in self._ledger.view().nodes for gpu in node.gpus)

    def replace(self, nodes: Mapping[str, NodeState], backlog: Iterable[Waiting]) -> None:
        """Take in all that the controller knows."""
        pods = [_waiting(waiting) for waiting in backlog]
        self._backlog = {pod.key: pod for pod in pods}
        taken = [_taken(state) for state in nodes.values()]
        self._nodes = set(nodes)
        self._ledger.replace([state.fact for state in nodes.values()], [*taken, *pods])
        self._known = True

    def set_node(self, state: NodeState) -> None:
        """Take in how a node is now; the inverse of `remove_node`."""
        self._nodes.add(state.fact.name)
        self._ledger.set_node(state.fact)
        self._ledger.set_pod(_taken(state))

    def remove_node(self, name: str) -> None:
        """Take in that a node is gone."""
        self._nodes.discard(name)
        self._ledger.remove_node(name)
        self._ledger.remove_pod(("", name))

    def set_backlog(self, backlog: Iterable[Waiting]) -> None:
        """Take in who waits now."""
        pods = {pod.key: pod for pod in map(_waiting, backlog)}
        for key in self._backlog.keys() - pods.keys():
            self._ledger.remove_pod(key)
        for pod in pods.values():
            self._ledger.set_pod(pod)
        self._backlog = pods


def _taken(state: NodeState) -> PodFact:
    """All that is taken of a node, as one pod; no real pod is without a namespace."""
    gpus = ((gpu.index, gpu.used) for gpu in state.view.gpus)
    return PodFact(
        namespace="",
        name=state.fact.name,
        node=state.fact.name,
        gpus=tuple((index, used) for index, used in gpus if index is not None and used),
        pooled=sum(gpu.used for gpu in state.view.gpus if gpu.index is None),
        cpu_milli=state.fact.cpu_milli - state.cpu_free,
        memory_bytes=state.fact.memory_bytes - state.memory_free,
    )


def _waiting(waiting: Waiting) -> PodFact:
    on_each = waiting.slices // max(1, len(waiting.indices))
    return PodFact(
        namespace=waiting.namespace,
        name=f"{waiting.kind}/{waiting.name}",
        gpus=tuple((index, on_each) for index in waiting.indices),
        pooled=0 if waiting.indices else waiting.slices,
    )
