"""The shares that containers hold by the claims that the agent prepared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agent.dra.checkpoint import PreparedClaim, PreparedDevice
from agent.held_slices import HeldShare, HeldShares, HeldSlices
from agent.kubelet import Holder
from agent.state import AgentState

_Devices = tuple[PreparedDevice, ...]


class ClaimedShares:
    """Finds shares by claims, and by device IDs for pods from before the agent offered by DRA."""

    def __init__(
        self,
        state: AgentState,
        slices: HeldSlices,
        slices_per_gpu: int,
        prepared: Callable[[], Iterable[PreparedClaim]],
    ) -> None:
        self._state = state
        self._slices = slices
        self._slices_per_gpu = slices_per_gpu
        self._prepared = prepared

    async def shares_of(self, holders: Sequence[Holder] | None) -> HeldShares:
        """Return the shares of these containers."""
        found = await self._slices.shares_of(holders)
        divided = list(
            _divided(holders or (), {(each.namespace, each.name): each for each in self._prepared()})
        )
        shares = [each for holder, devices in divided for each in self._shares(holder, devices or ())]
        unknown = [holder.name for holder, devices in divided if not self._are_known(devices)]
        return HeldShares([*found.shares, *shares], [*found.unmeasured, *unknown])

    def _are_known(self, devices: _Devices | None) -> bool:
        """Whether all parts of a container are known: else it must not count as idle."""
        return devices is not None and all(self._state.find(each.gpu) is not None for each in devices)

    def _shares(self, holder: Holder, devices: Iterable[PreparedDevice]) -> Iterator[HeldShare]:
        # A container has one limit for a card: equal parts of it from several requests do not add up.
        for device in {each.gpu: each for each in devices}.values():
            if (gpu := self._state.find(device.gpu)) is not None:
                yield holder.name, device.share_of(gpu, self._slices_per_gpu)


def _divided(
    holders: Iterable[Holder], prepared: Mapping[tuple[str, str], PreparedClaim]
) -> Iterator[tuple[Holder, _Devices | None]]:
    """Yield containers with their parts of prepared claims; None for one whose part is not known."""
    users: defaultdict[tuple[str, str, str], list[Holder]] = defaultdict(list)
    for holder in holders:
        for name in holder.claims:
            users[holder.namespace, name, holder.pod].append(holder)
    for (namespace, name, _), of_claim in users.items():
        if (claim := prepared.get((namespace, name))) is not None:
            yield from zip(of_claim, _parts(claim, len(of_claim)), strict=True)


def _parts(claim: PreparedClaim, containers: int) -> Sequence[_Devices | None]:
    """Return what each container of a pod has of its claim; the kubelet does not say which request it uses.

    The requests of several containers are in the order of the annotation `clearml-injector/containers`. Parts
    of one card are taken as in the order of the pod. On several cards that could blame the wrong container.
    """
    requests: dict[str, _Devices] = {}
    for each in claim.devices:
        requests[each.request] = (*requests.get(each.request, ()), each)
    if containers == 1 or len(requests) == 1:
        return [claim.devices] * containers
    if containers == len(requests) and len({each.gpu for each in claim.devices}) == 1:
        return list(requests.values())
    return [None] * containers
