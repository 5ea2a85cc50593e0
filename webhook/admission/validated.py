"""A labelled pod with what the rules found in it: its share, its containers, and its earlier injection."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from modes.mode import Mode
from policies.model.effective import EffectiveLimiter, EffectivePolicy
from webhook.admission.container_refs import ContainerRef
from webhook.admission.containers import Containers
from webhook.admission.existing_injection import ExistingInjection
from webhook.admission.pod import ObjectMeta, PodSpec


class Validated(msgspec.Struct, frozen=True, eq=False):
    """A labelled pod. One that passed all rules needs only a GPU."""

    namespace: str
    metadata: ObjectMeta
    spec: PodSpec
    policy: EffectivePolicy
    mode: Mode
    fraction: Fraction
    limiter: EffectiveLimiter
    """The policy's; a limiter that does nothing for whole GPUs, which no other pod shares."""
    every: list[ContainerRef]
    containers: Containers
    existing_injection: ExistingInjection
    kinds: GpuKinds
    """The kinds of GPU that the pod accepts."""
    kept: Placement | None = None
    """The pod's placement from an earlier review."""

    @property
    def said(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.metadata.annotations or {}
