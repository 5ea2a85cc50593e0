"""Cards that another device plugin of the node offers too: the kubelet would give each of them out twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agent.gpu import Gpu
from agent.metrics import AgentMetrics
from agent.state import AgentState
from service.log import get_logger


def offered_elsewhere(
    counted: Mapping[str, Iterable[str]], ours: Collection[str], gpus: Iterable[Gpu]
) -> dict[str, str]:
    """Return by uuid under which other name the kubelet counts a card.

    Device ids of NVIDIA's plugin, and of others, are the card's UUID, or begin with it. MIG instances have
    UUIDs of their own.

    Args:
        counted: device ids that the kubelet counts, by resource.
        ours: names of our own.
        gpus: that we offer.
    """
    uuids = {gpu.uuid for gpu in gpus}
    lengths = {len(uuid) for uuid in uuids}
    return {
        uuid: resource
        for resource in sorted(counted.keys() - ours, reverse=True)
        for each in counted[resource]
        for length in lengths
        if (uuid := each[:length]) in uuids and not each[length : length + 1].isalnum()
    }


class OtherPlugins:
    """Withdraws cards from new pods for as long as another plugin offers them.

    Args:
        state: the cards that we offer.
        ours: names of our resources.
        metrics: show the cards' health.
    """

    def __init__(self, state: AgentState, ours: Collection[str], metrics: AgentMetrics) -> None:
        self._state = state
        self._ours = ours
        self._metrics = metrics
        self._log = get_logger("other plugins")

    def look(self, counted: Mapping[str, Iterable[str]]) -> None:
        """Withdraw and give back cards by the device ids that the kubelet counts, by resource."""
        found = offered_elsewhere(counted, self._ours, self._state.gpus)
        before = self._state.elsewhere
        if found == before:
            return
        self._state.set_elsewhere(found)
        for gpu in self._state.gpus:
            if found.get(gpu.uuid) == before.get(gpu.uuid):
                continue
            self._metrics.set_healthy(gpu.index, gpu.uuid, healthy=gpu.uuid not in self._state.unhealthy)
            if gpu.uuid in found:
                reason = self._state.unhealthy[gpu.uuid]
                self._log.error("GPU is offered twice: it gets no new pods", index=gpu.index, reason=reason)
            else:
                self._log.info("GPU is ours alone again", index=gpu.index, uuid=gpu.uuid)
