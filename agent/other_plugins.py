"""Cards that another device plugin also offers, or gave to a pod: they would be allocated twice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.parts import Agent
from agent.shares import uuid_of
from modes.gpu_names import NVIDIA_CARD_PREFIXES
from service.log import get_logger

_TWICE = (
    "another device plugin offers it too, as {}: keep it from that plugin, or leave it out of agent.divide"
)
_NAMELESS = (
    '{} is of another device plugin, whose device IDs such as "{}" name no card: keep that plugin from this'
    " node, or, if it offers other cards only, list the resource in agent.trustedResources"
)
_HELD = "pod {} holds it as {}: its slices are offered when that pod has ended"
_UUID = re.compile(r"(GPU|MIG)-")
_MINOR = re.compile(r"nvidia([0-9]+)(?![0-9A-Za-z])", re.ASCII)
_MAX_DEVICE = 40


class OfferedCards:
    """Finds the cards that we offer in the device IDs of other plugins.

    The IDs of NVIDIA's plugin, and of others, are the card's UUID, or begin with it. Those of GKE's begin
    with the name of its device node, such as "nvidia0". MIG instances have their own UUIDs.
    """

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._minors = {gpu.uuid: gpu.minor for gpu in gpus}
        self._by_minor = {str(minor): uuid for uuid, minor in self._minors.items()}
        self._lengths = {len(uuid) for uuid in self._minors}

    def offered_elsewhere(
        self, counted: Mapping[str, Iterable[str]], ours: Collection[str]
    ) -> dict[str, str]:
        """Return the other resource name under which the kubelet counts a card, by UUID.

        Args:
            counted: device IDs that the kubelet counts, by resource.
            ours: our resource names.
        """
        return {
            uuid: resource
            for resource in sorted(counted.keys() - ours, reverse=True)
            for each in counted[resource]
            if (uuid := self._named_by(each)) is not None
        }

    def held_elsewhere(self, holders: Iterable[Holder], ours: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the pod that got a card from another plugin, and the resource name, by UUID.

        When that plugin has left, the kubelet no longer counts the device, although the pod still runs.

        Args:
            holders: containers with their devices.
            ours: our resource names; slices have these names.
        """
        return {
            uuid: (f"{holder.namespace}/{holder.pod}", resource)
            for holder in sorted(holders, key=lambda each: (each.namespace, each.pod), reverse=True)
            for resource, ids in holder.devices
            for each in ids
            if not (resource in ours and uuid_of(each) in self._minors)
            if (uuid := self._named_by(each)) is not None
        }

    def nameless(self, devices: Iterable[tuple[str, str]], known: Collection[str]) -> tuple[str, str] | None:
        """Return the first device, with its resource name, that may be of any card; None without one.

        Args:
            devices: resource names and device IDs.
            known: resource names that offer none of our cards to others: ours, and trusted ones.
        """
        of_gpus = (
            each for each in devices if each[0].startswith(NVIDIA_CARD_PREFIXES) and each[0] not in known
        )
        return next((each for each in of_gpus if self._is_nameless(each[1])), None)

    def _named_by(self, device: str) -> str | None:
        """Return the UUID of the card; None for another card's device, and for one that names no card."""
        for length in self._lengths:
            if (uuid := device[:length]) in self._minors and not device[length : length + 1].isalnum():
                return uuid
        found = _MINOR.match(device)
        return self._by_minor.get(found[1]) if found is not None else None

    def _is_nameless(self, device: str) -> bool:
        """Whether a device ID does not say which card it is."""
        if _UUID.match(device) or self._named_by(device) is not None:
            return False
        return _MINOR.match(device) is None or None in self._minors.values()


class OtherPlugins:
    """Withdraws cards while another plugin offers them, or while a pod has them from another plugin."""

    def __init__(self, agent: Agent, ours: Collection[str]) -> None:
        self._state = agent.state
        self._cards = OfferedCards(agent.state.gpus)
        self._ours = ours
        self._known = {*ours, *agent.options.trusted_resources}
        self._drivers: Mapping[str, str] = {}
        self._plugins: Mapping[str, str] = {}
        self._offered: frozenset[str] = frozenset()
        self._held: frozenset[str] = frozenset()
        self._log = get_logger("other plugins")

    def look(self, counted: Mapping[str, Iterable[str]], holders: Iterable[Holder]) -> None:
        """Withdraw cards and offer them again, by what the kubelet counts and what containers have."""
        holders = list(holders)
        devices = [(resource, each) for resource in sorted(counted) for each in sorted(counted[resource])]
        devices += [
            (resource, each) for holder in holders for resource, ids in holder.devices for each in ids
        ]
        nameless = self._cards.nameless(devices, self._known)
        held = self._cards.held_elsewhere(holders, self._ours)
        offered = self._cards.offered_elsewhere(counted, self._ours)
        found = {}
        if nameless is not None:
            reason = _NAMELESS.format(nameless[0], nameless[1][:_MAX_DEVICE])
            found = {gpu.uuid: reason for gpu in self._state.gpus}
        found |= {uuid: _HELD.format(*by) for uuid, by in held.items()}
        found |= {uuid: _TWICE.format(resource) for uuid, resource in offered.items()}
        self._plugins, self._offered, self._held = found, frozenset(offered), frozenset(held)
        self._set()

    def set_drivers(self, reasons: Mapping[str, str]) -> None:
        """Withdraw the cards that drivers of Dynamic Resource Allocation offer too, by UUID."""
        self._drivers = reasons
        self._set()

    def _set(self) -> None:
        found, before = {**self._plugins, **self._drivers}, self._state.elsewhere
        if found == before:
            return
        self._state.elsewhere = found
        offered = self._offered | self._drivers.keys()
        for gpu in self._state.gpus:
            if found.get(gpu.uuid) != before.get(gpu.uuid):
                self._tell(gpu, offered, is_found=gpu.uuid in found)

    def _tell(self, gpu: Gpu, offered: Collection[str], *, is_found: bool) -> None:
        if not is_found:
            self._log.info("GPU is offered again: no other plugin has it", index=gpu.index, uuid=gpu.uuid)
            return
        reason = self._state.unhealthy[gpu.uuid]
        if gpu.uuid in offered:
            self._log.error("GPU is offered twice: it gets no new pods", index=gpu.index, reason=reason)
        elif gpu.uuid in self._held:
            self._log.warning(
                "GPU is held under another name: it gets no new pods", index=gpu.index, reason=reason
            )
        else:
            self._log.error("GPU may be offered twice: it gets no new pods", index=gpu.index, reason=reason)
