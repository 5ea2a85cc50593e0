"""The nodes that the agent's DaemonSet covers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube.matching import labels_match, tolerates
from kube.names import AGENT_TAINT
from kube.objects import Affinity
from kube.scheduling import Constraints, Taint, Toleration


class AgentPods(msgspec.Struct, frozen=True, rename="camel"):
    """The demands of the DaemonSet's pods on a node, as in a pod's spec."""

    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()

    @property
    def _constraints(self) -> Constraints:
        affinity = self.affinity.node_affinity if self.affinity is not None else None
        required = affinity.required if affinity is not None else None
        terms = tuple(required.node_selector_terms or ()) if required is not None else None
        return Constraints(self.node_selector, terms, self.tolerations)

    @property
    def selects(self) -> bool:
        """Whether the DaemonSet selects nodes; otherwise it covers all, also those without GPUs."""
        return bool(self.node_selector or self._constraints.required_terms is not None)

    def covers(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> bool:
        """Whether the DaemonSet has a pod for this node; our own taint never prevents it."""
        others = [taint for taint in taints if taint.key != AGENT_TAINT]
        return labels_match(self._constraints, name, labels) and tolerates(self.tolerations, others)


def read_agent_pods(text: str) -> AgentPods:
    """Decode the demands of the agent's pods on their node from JSON.

    Raises:
        ValueError: they are not fields of a pod's spec.
    """
    return msgspec.json.decode(text, type=AgentPods)
