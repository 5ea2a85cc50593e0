"""What the name of a resource says: a GPU asked for in one of several ways, another system, or nothing."""

from __future__ import annotations

import msgspec

from policies.model.allowances import NVIDIA_DOMAIN
from policies.model.gpu_names import CLEARML_FRACTION_PREFIX, OTHER_SYSTEM_PREFIXES, WHOLE_GPU_NAMES


class ResourceKind(msgspec.Struct, frozen=True, gc=False):
    """What one resource name means under one mode; at least one of these is so."""

    is_whole: bool
    """nvidia.com/gpu or its shared form: whole GPUs, or slices of them."""
    is_clearml: bool
    """clear.ml/fraction-*, which must equal the label."""
    is_index: bool
    """One particular GPU, which only the placement may choose."""
    is_pool: bool
    """The policy's own name for slices of any GPU."""
    is_other_system: bool
    """MIG, HAMi, another vendor's GPU, slices under another policy's name, or an unknown one of NVIDIA's."""
    can_be_allowed: bool
    """Another system's only as long as the policy does not know the name for no GPU."""
    is_replaced: bool
    """A user's way to ask for a GPU, which ours takes the place of."""
    asks: bool
    """Any way to ask for a GPU, in the user's words or, after a first review, in ours."""


def kind_of(
    resource: str, *, is_index: bool, is_pool: bool, is_counted: bool, is_allowed: bool
) -> ResourceKind | None:
    """Tell what a resource name says of GPUs; None for cpu, memory and whatever else has no part in it.

    `is_counted` says that some policy puts it into pods, `is_allowed` that the policy knows it for no GPU.
    """
    is_whole = resource in WHOLE_GPU_NAMES
    is_clearml = resource.startswith(CLEARML_FRACTION_PREFIX)
    asks = is_whole or is_clearml or is_index or is_pool
    is_unknown = resource.startswith(NVIDIA_DOMAIN) and not is_allowed
    is_known_system = resource.startswith(OTHER_SYSTEM_PREFIXES) or (is_counted and not asks)
    can_be_allowed = is_unknown and not asks and not is_known_system
    is_other_system = is_known_system or can_be_allowed
    if not asks and not is_other_system:
        return None
    is_replaced = is_whole or is_clearml
    return ResourceKind(
        is_whole, is_clearml, is_index, is_pool, is_other_system, can_be_allowed, is_replaced, asks
    )
