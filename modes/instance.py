"""A share as a MIG instance: its profile, what quotas count for it, and the models that have it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from modes.fraction import Fraction
from modes.units import EIGHTHS, POOL, Profile, Unit, profile_of_number

ONE_INSTANCE = Fraction(1, EIGHTHS)
"""What a node's account counts for a pod: one instance, whatever its size."""


_Amount = Annotated[int, msgspec.Meta(ge=0)]


class Instance(msgspec.Struct, frozen=True, gc=False):
    """A share in hardware, on the nodes where it has one size. The request decides the size, not a policy."""

    number: _Amount
    """The number of the profile (modes/units.py)."""
    eighths: _Amount
    """How many eighths of the card's memory quotas count for it."""
    mib: _Amount
    """Its MiB, the minimum over those models."""
    products: tuple[str, ...]
    """Values of the node label nvidia.com/gpu.product of the nodes on which it has this size, sorted."""
    is_pool: bool = False
    """Whether its resource is nvidia.com/gpu, as with the MIG strategy `single`."""
    is_more_than_twice: bool = False
    """Whether more than half of it would be idle."""

    @property
    def profile(self) -> Profile:
        """The profile, also of instances that are a node's pool."""
        return profile_of_number(self.number)

    @property
    def unit(self) -> Unit:
        """The unit that it takes on its node."""
        return POOL if self.is_pool else self.profile

    @property
    def indices(self) -> tuple[int, ...]:
        """What a placement holds instead of GPU indices: the profile's number; nothing for a node's pool."""
        return () if self.is_pool else (self.number,)

    @property
    def share(self) -> Fraction:
        """The pod's share in eighths of a card."""
        return Fraction(self.eighths, EIGHTHS)
