"""Which containers hold which shares, as whatever offers the GPUs knows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.containers import ContainerName
from agent.kubelet import Holder
from agent.shares import Share

HeldShare = tuple[ContainerName, Share]


@dataclass(frozen=True, slots=True)
class HeldShares:
    """The shares of a node's containers, of each GPU at most one for a container."""

    shares: Sequence[HeldShare] = ()
    unmeasured: Collection[ContainerName] = ()
    """Containers that hold GPUs, but no known share: their kernels are work of their pods, too."""


class ShareSource(Protocol):
    """Finds the shares that containers hold."""

    async def shares_of(self, holders: Sequence[Holder] | None) -> HeldShares:
        """Return the shares of these containers.

        Args:
            holders: all containers with devices or claims; None while the kubelet does not list them.
        """
