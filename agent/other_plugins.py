"""Cards that another device plugin also offers, or gave to a pod: they would be allocated twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from http import HTTPStatus

from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.resource_slices import ResourceSlices
from agent.parts import Agent
from agent.shares import uuid_of
from modes.gpu_names import NVIDIA_CARD_PREFIXES
from service.log import get_logger

_TWICE = (
    "another device plugin offers it too, as {}: keep it from that plugin, or leave it out of agent.divide"
)
_NAMELESS = (
    '{} is of another device plugin, whose device IDs such as "{}" name no card: have it name cards by UUID,'
    " or keep it from this node"
)
TWICE_BY_DRIVER = "DRA driver {} offers it too: remove one of the two from this node"
_HELD = "pod {} holds it as {}: its slices are offered when that pod has ended"
_UUID = re.compile(r"(GPU|MIG)-")
_MINOR = re.compile(r"nvidia([0-9]+)(?![0-9A-Za-z])", re.ASCII)
_MAX_DEVICE = 40


def found_elsewhere(
    gpus: Sequence[Gpu],
    ours: Collection[str],
    counted: Mapping[str, Iterable[str]],
    holders: Iterable[Holder],
) -> dict[str, str]:
    """Return why cards must be withdrawn, by UUID.

    The device IDs of NVIDIA's plugin, and of others, are the card's UUID, or begin with it. Those of GKE's
    begin with the name of its device node, such as "nvidia0/vgpu3". MIG instances have their own UUIDs. A
    device ID that names no card may be of any.

    Args:
        gpus: the cards that we offer.
        ours: our resource names.
        counted: device IDs that the kubelet counts, by resource.
        holders: containers with their devices. When a plugin has left, the kubelet no longer counts its
            devices, although the pods still run.
    """
    uuids = {gpu.uuid for gpu in gpus}
    devices = [
        (resource, each, _TWICE.format(resource))
        for resource in sorted(counted.keys() - ours)
        for each in sorted(counted[resource])
    ]
    devices += [
        (resource, each, _HELD.format(f"{holder.namespace}/{holder.pod}", resource))
        for holder in sorted(holders, key=lambda each: (each.namespace, each.pod))
        for resource, ids in holder.devices
        for each in ids
        if not (resource in ours and uuid_of(each) in uuids)
    ]
    found: dict[str, str] = {}
    nameless: dict[str, str] = {}
    for resource, device, why in devices:
        if (uuid := _card_of(device, gpus)) is not None:
            found.setdefault(uuid, why)
        elif resource not in ours and _is_nameless(resource, device, gpus):
            nameless = nameless or dict.fromkeys(uuids, _NAMELESS.format(resource, device[:_MAX_DEVICE]))
    return nameless | found


def _card_of(device: str, gpus: Iterable[Gpu]) -> str | None:
    """Return the UUID of the card; None for another card's device, and for one that names no card."""
    minor = found[1] if (found := _MINOR.match(device)) is not None else None
    for gpu in gpus:
        if minor is not None and minor == str(gpu.minor):
            return gpu.uuid
        if device.startswith(gpu.uuid) and not device[len(gpu.uuid) :][:1].isalnum():
            return gpu.uuid
    return None


def _is_nameless(resource: str, device: str, gpus: Iterable[Gpu]) -> bool:
    """Whether a device of NVIDIA's cards, and of none of ours by its name, may be of any."""
    if not resource.startswith(NVIDIA_CARD_PREFIXES) or _UUID.match(device):
        return False
    return _MINOR.match(device) is None or any(gpu.minor is None for gpu in gpus)


class OtherPlugins:
    """Withdraws cards while another plugin or driver offers them, or a pod has them from one."""

    def __init__(self, agent: Agent, ours: Collection[str]) -> None:
        self._state = agent.state
        self._ours = ours
        self._drivers: Mapping[str, str] = {}
        self._plugins: Mapping[str, str] = {}
        self._log = get_logger("other plugins")

    def look(self, counted: Mapping[str, Iterable[str]], holders: Iterable[Holder]) -> None:
        """Withdraw cards and offer them again, by what the kubelet counts and what containers have."""
        self._plugins = found_elsewhere(self._state.gpus, self._ours, counted, holders)
        self._set()

    async def look_at_drivers(self, slices: ResourceSlices) -> None:
        """Withdraw the cards that drivers of Dynamic Resource Allocation offer too.

        Raises:
            ApiServerError: their slices cannot be read.
        """
        try:
            found = await asyncio.to_thread(slices.others, self._state.gpus)
        except ApiServerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            found = {}  # Kubernetes before 1.34 does not serve them
        self._drivers = {uuid: TWICE_BY_DRIVER.format(by) for uuid, by in found.items()}
        self._set()

    def _set(self) -> None:
        found, before = {**self._plugins, **self._drivers}, self._state.elsewhere
        self._state.elsewhere = found
        for gpu in self._state.gpus:
            why = found.get(gpu.uuid)
            if why is not None and why != before.get(gpu.uuid):
                self._log.error("GPU gets no new pods: another plugin has it", index=gpu.index, reason=why)
            elif why is None and gpu.uuid in before:
                self._log.info("GPU is offered again: no other plugin has it", index=gpu.index, uuid=gpu.uuid)
