"""The slices that containers hold: their shares, what the kubelet has allocated, and cards to withdraw."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.containers import ContainerName
from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.kubelet_checkpoint import allocations_in, divisions_of
from agent.parts import Agent
from agent.shares import RefusedError, Share, shares_of, uuid_of
from agent.state import Held
from service.log import get_logger

HeldShare = tuple[ContainerName, Share]
_RESIZED = "pods hold slices of it from when it had {}: it is offered again when they have ended"


@dataclass(frozen=True, slots=True)
class HeldShares:
    """The shares of a node's containers, of each GPU at most one for a container."""

    shares: Sequence[HeldShare] = ()
    unmeasured: Collection[ContainerName] = ()
    """Containers that hold GPUs, but no known share: their kernels are work of their pods, too."""


class HeldSlices:
    """Finds shares by device IDs, and keeps the state of what they take of each GPU.

    If slices are not offered to new pods, pods of before may have some.
    """

    def __init__(self, agent: Agent, *, are_offered: bool = True) -> None:
        self._policy = agent.policy
        self._state = agent.state
        self._plugins = agent.kubelet.plugins
        self._are_offered = are_offered
        self._log = get_logger("usage")

    async def shares_of(self, holders: Sequence[Holder] | None) -> HeldShares:
        """Return the shares of these containers; None withdraws cards by the kubelet's checkpoint alone."""
        allocations = await asyncio.to_thread(allocations_in, self._plugins)
        divisions = divisions_of(allocations)
        if self._are_offered:
            gpus = self._state.gpus
            self._state.held = held_of(holders, gpus) if holders is not None else None
            # The checkpoint also has ended containers, until the next allocation.
            given = {frozenset(ids) for holder in holders or () for _, ids in holder.devices}
            self._withdraw(given if holders is not None else divisions.keys(), divisions)
        shares = [each for holder in holders or () for each in self._shares(holder, divisions)]
        names = {name for name, _ in shares}
        uuids = {gpu.uuid for gpu in self._state.gpus}
        others = [each.name for each in holders or () if each.name not in names and _holds_gpus(each, uuids)]
        return HeldShares(shares, others)

    def _withdraw(self, held: Collection[frozenset[str]], divisions: Mapping[frozenset[str], int]) -> None:
        """Withdraw cards of which containers hold slices of another size: the kubelet cannot count those."""
        resized = {
            uuid_of(each): _RESIZED.format(size)
            for ids, size in divisions.items()
            if ids in held and size != self._policy.slices_per_gpu
            for each in ids
        }
        if resized.keys() != self._state.resized.keys():
            self._log.warning("GPUs with slices of another size get no new pods", uuids=sorted(resized))
        self._state.resized = resized

    def _shares(self, holder: Holder, divisions: Mapping[frozenset[str], int]) -> Iterator[HeldShare]:
        gpus = {gpu.uuid: gpu for gpu in self._state.gpus}
        for _, ids in holder.devices:
            if any(uuid_of(each) in gpus for each in ids):
                try:
                    # A running container keeps its limit when the policy changes.
                    size = divisions.get(frozenset(ids), self._policy.slices_per_gpu)
                    for share in shares_of(ids, gpus, size, self._policy.reserve_mib):
                        yield holder.name, share
                except RefusedError:
                    continue  # allocated under another policy, and the checkpoint does not state which


def held_of(holders: Iterable[Holder], gpus: Iterable[Gpu]) -> Mapping[str, Held]:
    """Return the slices that containers hold of each of these GPUs, by UUID; 0 for unused GPUs."""
    ids: dict[str, set[str]] = {gpu.uuid: set() for gpu in gpus}
    pods: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for holder in holders:
        for each in holder.ids:
            if (uuid := uuid_of(each)) in ids:
                ids[uuid].add(each)
                pods[uuid].add((holder.namespace, holder.pod))
    return {uuid: Held(len(found), len(pods[uuid])) for uuid, found in ids.items()}


def _holds_gpus(holder: Holder, uuids: Collection[str]) -> bool:
    """Whether it has NVIDIA's or our devices: whole GPUs, MIG instances and shares of another policy."""
    return any(
        resource.startswith("nvidia.com/") or any(uuid_of(each) in uuids for each in ids)
        for resource, ids in holder.devices
    )
