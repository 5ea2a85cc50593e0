"""Cards that another device plugin offers too, or gave to a pod: they would be given out twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.metrics import AgentMetrics
from agent.shares import uuid_of
from agent.state import AgentState
from service.log import get_logger

_TWICE = (
    "another device plugin offers it too, as {}: keep it from that plugin, or leave it out of agent.divide"
)
_HELD = "pod {} holds it as {}: its slices are offered when that pod has ended"


class _Cards:
    """Finds the card in device ids of other plugins.

    Those of NVIDIA's plugin, and of others, are the card's UUID, or begin with it. MIG instances have UUIDs
    of their own.
    """

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.uuids = frozenset(gpu.uuid for gpu in gpus)
        self._lengths = {len(uuid) for uuid in self.uuids}

    def named_by(self, device: str) -> str | None:
        for length in self._lengths:
            if (uuid := device[:length]) in self.uuids and not device[length : length + 1].isalnum():
                return uuid
        return None


def offered_elsewhere(
    counted: Mapping[str, Iterable[str]], ours: Collection[str], gpus: Iterable[Gpu]
) -> dict[str, str]:
    """Return by uuid under which other name the kubelet counts a card.

    Args:
        counted: device ids that the kubelet counts, by resource.
        ours: names of our own.
        gpus: that we offer.
    """
    cards = _Cards(gpus)
    return {
        uuid: resource
        for resource in sorted(counted.keys() - ours, reverse=True)
        for each in counted[resource]
        if (uuid := cards.named_by(each)) is not None
    }


def held_elsewhere(
    holders: Iterable[Holder], ours: Collection[str], gpus: Iterable[Gpu]
) -> dict[str, tuple[str, str]]:
    """Return by uuid which pod holds a card that another plugin gave it, and as what resource.

    The kubelet counts such a device for nobody any more once that plugin has left, while the pod runs on.

    Args:
        holders: containers with what they hold.
        ours: names of our own: under them, slices are held of us.
        gpus: that we offer.
    """
    cards = _Cards(gpus)
    return {
        uuid: (f"{holder.namespace}/{holder.pod}", resource)
        for holder in sorted(holders, key=lambda each: (each.namespace, each.pod), reverse=True)
        for resource, ids in holder.devices
        for each in ids
        if not (resource in ours and uuid_of(each) in cards.uuids)
        if (uuid := cards.named_by(each)) is not None
    }


class OtherPlugins:
    """Withdraws cards from new pods for as long as another plugin offers them, or a pod holds them of one.

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

    def look(self, counted: Mapping[str, Iterable[str]], holders: Iterable[Holder]) -> None:
        """Withdraw and give back cards by what the kubelet counts, and by what containers hold."""
        gpus = self._state.gpus
        held = held_elsewhere(holders, self._ours, gpus)
        offered = offered_elsewhere(counted, self._ours, gpus)
        found = {uuid: _HELD.format(*by) for uuid, by in held.items()}
        found |= {uuid: _TWICE.format(resource) for uuid, resource in offered.items()}
        before = self._state.elsewhere
        if found == before:
            return
        self._state.set_elsewhere(found)
        for gpu in gpus:
            if found.get(gpu.uuid) != before.get(gpu.uuid):
                self._tell(gpu, is_offered=gpu.uuid in offered, is_found=gpu.uuid in found)

    def _tell(self, gpu: Gpu, *, is_offered: bool, is_found: bool) -> None:
        self._metrics.set_healthy(gpu.index, gpu.uuid, healthy=gpu.uuid not in self._state.unhealthy)
        if not is_found:
            self._log.info("GPU is ours alone again", index=gpu.index, uuid=gpu.uuid)
            return
        reason = self._state.unhealthy[gpu.uuid]
        if is_offered:
            self._log.error("GPU is offered twice: it gets no new pods", index=gpu.index, reason=reason)
        else:
            self._log.warning(
                "GPU is held under another name: it gets no new pods", index=gpu.index, reason=reason
            )
