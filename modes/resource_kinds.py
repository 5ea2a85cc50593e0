"""The meaning of a resource name: one of several ways to request a GPU, another system, or nothing.

A pod may state a GPU resource beside the label: `agrees` compares the two.
"""

from __future__ import annotations

import re

import msgspec

from kube.names import NVIDIA_DOMAIN
from kube.quantity import parse_quantity
from modes.fraction import Fraction
from modes.gpu_names import CLEARML_FRACTION_PREFIX, OTHER_SYSTEM_PREFIXES, WHOLE_GPU_NAMES
from modes.resource_names import ResourceNames


class ResourceKind(msgspec.Struct, frozen=True, gc=False):
    """What one resource name means under one mode; at least one flag is true."""

    is_whole: bool
    """nvidia.com/gpu or its shared form: whole GPUs, or slices of them."""
    is_clearml: bool
    """clear.ml/fraction-*, which must equal the label."""
    is_index: bool
    """One particular GPU, which only the placement may choose."""
    is_pool: bool
    """The policy's own name for slices of any GPU."""
    is_instance: bool
    """A MIG instance, in a mode that gives pods instances."""
    is_other_system: bool
    """MIG in other modes, HAMi, another vendor's GPU, another policy's slices, or an unknown name."""
    can_be_allowed: bool
    """Whether the policy can allow the name by listing it as not a GPU."""
    is_replaced: bool
    """A user's request for a GPU, which ours replaces."""
    asks: bool
    """Any request for a GPU: the user's or, after a first review, ours."""

    def agrees(self, amount: str | int, fraction: Fraction) -> bool:
        """Whether an amount of such a resource agrees with the label's fraction.

        Whole GPUs and slices of a pool may be one of `Fraction.counts`, or 0, which requests nothing.
        `clear.ml/fraction-*` must equal the label, for each GPU if several are shared. Amounts of other kinds
        always agree.
        """
        if not (self.is_clearml or self.is_whole or self.is_pool or self.is_instance):
            return True
        try:
            value = parse_quantity(amount)
        except ValueError:
            return False
        if self.is_clearml:
            # In integers: comparing and hashing fractions is slower, and every pod needs it.
            share, one = fraction.ratio
            share *= fraction.gpus if fraction.is_whole else 1
            return not fraction.is_of_memory and value.numerator * one == share * value.denominator
        return value.denominator == 1 and value.numerator in (
            {0, 1} if self.is_instance else {0, *fraction.counts}
        )


class ResourceKinds:
    """The kind of every resource name under one policy: `kinds[name]`.

    Args:
        index: regular expression of names that mean one particular GPU.
        pool: the policy's own name for slices of any GPU; None if it has none.
        counted: names that any policy of the set puts into pods.
        allowed: names that the policy lists as not a GPU.
        instances: prefix of the instance resources that pods may request; empty if they may not.
    """

    def __init__(
        self,
        index: str,
        pool: str | None,
        counted: ResourceNames,
        allowed: frozenset[str],
        instances: str = "",
    ) -> None:
        self._index = re.compile(index, re.ASCII)
        self._pool = pool
        self._counted = counted
        self._allowed = allowed
        self._instances = instances

    def __getitem__(self, resource: str) -> ResourceKind | None:
        """Return the kind of a name; None for cpu, memory and any other name that requests no GPU."""
        # A GPU is always requested by an extended resource, whose name has a domain.
        if "/" not in resource:
            return None
        is_whole = resource in WHOLE_GPU_NAMES
        is_clearml = resource.startswith(CLEARML_FRACTION_PREFIX)
        is_index = self._index.fullmatch(resource) is not None
        is_pool = resource == self._pool
        is_instance = bool(self._instances) and resource.startswith(self._instances)
        asks = is_whole or is_clearml or is_index or is_pool or is_instance
        is_allowed = resource in self._allowed
        is_known_system = not is_instance and (
            (resource.startswith(OTHER_SYSTEM_PREFIXES) and not is_allowed)
            or (not asks and self._counted.counts(resource))
        )
        is_unknown = resource.startswith(NVIDIA_DOMAIN) and not is_allowed
        can_be_allowed = is_unknown and not asks and not is_known_system
        is_other_system = is_known_system or can_be_allowed
        if not asks and not is_other_system:
            return None
        is_replaced = is_whole or is_clearml or is_pool
        return ResourceKind(
            is_whole,
            is_clearml,
            is_index,
            is_pool,
            is_instance,
            is_other_system,
            can_be_allowed,
            is_replaced,
            asks,
        )
