"""How a share is expressed on the pod: the resource names and amounts of each mode."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from modes.fraction import Fraction
from modes.resource_names import ResourceNames
from policies.model.effective import EffectivePolicy
from webhook.admission.remembered import Remembered
from webhook.admission.resource_kinds import ResourceKind, kind_of

STANDARD_INDEX = r"nvidia\.com/gpu-[0-9]+"
"""Names of single GPUs that a node may advertise whatever name the policy goes by."""


class Mode(Protocol):
    """A way to ask the scheduler and the kubelet for slices."""

    kinds: Remembered[ResourceKind | None]
    """What each resource name means under this mode."""

    def __hash__(self) -> int: ...

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:
        """Resource names and quantities for limits and requests of a GPU container."""


class PerGpu:
    """One resource name per GPU: k of nvidia.com/gpu-3 is exactly k slices of GPU 3."""

    def __init__(self, template: str, names: ResourceNames, allowed: frozenset[str]) -> None:
        self._template = template
        before, _, after = template.partition("{index}")
        own = f"{re.escape(before)}[0-9]+{re.escape(after)}"
        # The policy's names, and the standard ones, whichever the policy goes by.
        self.kinds = _kinds(f"{own}|{STANDARD_INDEX}", None, names, allowed)

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:
        """Slices of each chosen index."""
        each = str(fraction.slices_on_each)
        return {self._template.replace("{index}", str(index)): each for index in indices}


class Pooled:
    """One resource name for all GPUs of a node; the kubelet picks the devices."""

    def __init__(self, resource: str, names: ResourceNames, allowed: frozenset[str]) -> None:
        self._resource = resource
        # Per-GPU names have no place under a pooled policy.
        self.kinds = _kinds(STANDARD_INDEX, resource, names, allowed)

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:  # noqa: ARG002 the kubelet chooses the indices
        """Slices of the node's pool."""
        return {self._resource: str(fraction.slices)}


def _kinds(
    index: str, pool: str | None, names: ResourceNames, allowed: frozenset[str]
) -> Remembered[ResourceKind | None]:
    pattern = re.compile(index, re.ASCII)
    return Remembered(
        lambda name: kind_of(
            name,
            is_index=pattern.fullmatch(name) is not None,
            is_pool=name == pool,
            is_counted=names.counts(name),
            is_allowed=name in allowed,
        )
    )


@lru_cache(maxsize=64)
def _mode(name: str, resource: str, names: ResourceNames, allowed: frozenset[str]) -> Mode:
    return (PerGpu if name == "per-gpu" else Pooled)(resource, names, allowed)


def mode_of(policy: EffectivePolicy) -> Mode:
    """The mode that a policy asks for."""
    return _mode(policy.mode, policy.resource, policy.all_resources, policy.allow.resources)
