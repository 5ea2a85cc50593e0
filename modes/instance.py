"""One way to give a share as a MIG instance: which profile, what it is worth, and on which models."""

from __future__ import annotations

from typing import Annotated

import msgspec

from modes.fraction import Fraction
from modes.mig_instances import EIGHTHS, profile_name

ONE_INSTANCE = Fraction(1, EIGHTHS)
"""What the accounts of a node count for a pod: instances, whatever their size."""


_Amount = Annotated[int, msgspec.Meta(ge=0)]


class Instance(msgspec.Struct, frozen=True, gc=False):
    """A share in hardware, on nodes where it is of one size; what is asked for decides, no policy does."""

    number: _Amount
    """Of the profile (modes/mig_instances.py)."""
    eighths: _Amount
    """Of the card's memory that it is worth to quotas."""
    mib: _Amount
    """MiB of it, the least of all those models."""
    products: tuple[str, ...]
    """Values of the node label nvidia.com/gpu.product on whose nodes it is this size, sorted."""
    is_pool: bool = False
    """Whether it is asked for as nvidia.com/gpu: by the MIG strategy `single`."""
    is_more_than_twice: bool = False
    """Whether more than half of it would lie idle."""

    @property
    def profile(self) -> str:
        """Name of the profile, as in resource names."""
        return profile_name(self.number)

    @property
    def indices(self) -> tuple[int, ...]:
        """What a placement holds for GPUs: the stock that it is taken from; none for a node's pool."""
        return () if self.is_pool else (self.number,)

    @property
    def share(self) -> Fraction:
        """What the pod is given, in eighths of a card."""
        return Fraction(self.eighths, EIGHTHS)
