"""The share of a placed pod: amounts, annotations, variables."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from policies.model.effective import COMPUTE_LIMIT
from webhook.admission.annotations import (
    GPU_CONTAINER,
    GPU_INDEX,
    INJECTED,
    MEMORY_MIB,
    RESERVATION,
    SLICES,
    numbers_text,
)
from webhook.admission.compute import asked_compute
from webhook.admission.container_refs import ContainerRef
from webhook.admission.validated import Validated

MEMORY = "memory_mib"
_OF_ONE_GPU = ("CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_SM_LIMIT_")
"""Prefixes of HAMi-core's limits of one GPU, followed by its number in the container."""


class ContainerShare(msgspec.Struct, frozen=True, eq=False):
    """The share of one GPU container."""

    fraction: Fraction
    indices: tuple[int, ...]
    memory_mib: int | None
    """MiB on each GPU after the policy's reserve; None for whole GPUs, and with limits by the node's
    agent."""

    def env(self, validated: Validated, container: str) -> dict[str, str]:
        """Return the variables of one container; without `memory_mib` none that uses it."""
        fraction, unknown = self.fraction, f"{{{MEMORY}}}" if self.memory_mib is None else None
        limited = {each.name: each.value for each in validated.limiter.env}
        if (compute := asked_compute(validated.metadata)) is not None:
            limited[COMPUTE_LIMIT] = compute
        variables = [*limited.items(), *((each.name, each.value) for each in validated.policy.env)]
        texts = {name: text for name, text in variables if unknown is None or unknown not in text}
        for device in range(1, fraction.gpus):
            texts |= _of_device(texts, device)
        values = {
            "slices": fraction.slices_on_each,
            "slices_per_gpu": fraction.slices_per_gpu,
            "percent": fraction.percent,
            "index": numbers_text(self.indices),
            "namespace": validated.namespace,
            "container": container,
            MEMORY: self.memory_mib,
        }
        return {name: text.format_map(values) for name, text in texts.items()}


def _of_device(variables: Mapping[str, str], device: int) -> dict[str, str]:
    """Return the limits of another GPU: those of the first, unless the variables set others."""
    numbered = {f"{prefix}{device}": variables.get(f"{prefix}0") for prefix in _OF_ONE_GPU}
    return {name: text for name, text in numbered.items() if text is not None and name not in variables}


class PodShare(msgspec.Struct, frozen=True, eq=False):
    """The share of a placed pod, before it is written as a patch."""

    whole: ContainerShare
    """For the only GPU container, and for init containers: all of it, or the first part if parts are on
    different GPUs, or requests of one claim."""
    parts: dict[str, ContainerShare]
    """Shares of the containers with parts, by path."""
    annotations: dict[str, str]
    """All our annotations; the pod may have no others of ours."""
    memory_mib: int | None
    """MiB of all parts."""
    smallest_mib: int | None
    """MiB of the smallest part, or of the whole share without parts; None if nothing is limited."""

    def of(self, ref: ContainerRef) -> ContainerShare:
        """Return a GPU container's share."""
        return self.parts.get(ref.path, self.whole)


def share_of(validated: Validated, placement: Placement) -> PodShare:
    """Return the share of a placed pod."""
    policy, fraction, containers = validated.policy, validated.fraction, validated.containers
    each = None
    if policy.writes_limits and placement.instance is None:
        each = fraction.limits_mib(placement.gpu_mib, policy.reserve_mib)
    annotations = {INJECTED: policy.marker}
    if not (validated.mode.is_claimed and fraction.is_of_memory):
        annotations[SLICES] = str(fraction.slices)
    if placement.gpus:
        annotations[GPU_INDEX] = numbers_text(placement.gpus)
    if each is not None:
        annotations[MEMORY_MIB] = numbers_text(each)
    annotations[GPU_CONTAINER] = containers.names
    if placement.reservation is not None:
        annotations[RESERVATION] = placement.reservation
    by_path = {
        part.ref.path: ContainerShare(
            *containers.share_of(part.ref, fraction, placement), each[at] if each else None
        )
        for at, part in enumerate(containers.parts)
    }
    mib = sum(each) if each else None
    if placement.containers or (by_path and validated.mode.is_claimed):
        whole = by_path[containers.chosen.path]
    else:
        whole = ContainerShare(fraction, placement.indices, mib)
    return PodShare(whole, by_path, annotations, mib, min(each) if each else None)
