"""Mode dra: the scheduler chooses the card, by a ResourceClaim of each pod (Dynamic Resource Allocation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kube.dra import CAPACITIES, DRIVER
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_names import STANDARD_INDEX
from modes.mode import GpuCount, Mode, ModeName
from modes.resource_kinds import ResourceKinds


@dataclass(frozen=True)
class ByClaim(Mode):
    """A pod gets a claim on memory of a card instead of amounts of resources; `resource` is the driver."""

    name: ClassVar[ModeName] = "dra"
    counts_slices: ClassVar[bool] = False
    default_resource: ClassVar[str] = DRIVER
    is_claimed: ClassVar[bool] = True
    prices_node_classes: ClassVar[bool] = False
    unknown_placeholders: ClassVar[frozenset[str]] = frozenset({"index", "slices", "percent"})
    several_gpus_problem: ClassVar[str | None] = None
    unsupported: ClassVar[Mapping[str, str]] = {
        "place": "the scheduler chooses node and card: leave it out",
        "sameModel": "the scheduler chooses the card: use the annotation gpu-model",
        "compute": "a claim is for memory, and nothing limits compute: leave it out",
        "memory.reserveMiB": "the DRA driver leaves its own reserve out of what it offers: leave it out",
    }

    @cached_property
    def kinds(self) -> ResourceKinds:
        """NVIDIA's names are requests that the claim replaces; names of single GPUs are denied."""
        return ResourceKinds(STANDARD_INDEX, None, self.counted, self.allowed, self.instance_prefix)

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:  # noqa: ARG002 a claim
        """Return no amounts: the pod's claim requests its share."""
        return {}

    def share_text(self, fraction: Fraction) -> str:
        """Return what the claim asks of the driver."""
        if fraction.is_of_memory:
            return super().share_text(fraction)
        return f"{fraction.slices} of {fraction.slices_per_gpu} slices of GPU memory, from {self.resource}"

    @classmethod
    def name_problem(cls, resource: str) -> str | None:
        """Return a problem for every name of a resource: pods get a claim."""
        if resource in CAPACITIES:
            return None
        return "is not for mode dra, in which pods get a claim and no resource: leave it out, or set driver"

    @classmethod
    def limits_itself(cls, resource: str) -> bool:
        """Whether the driver enforces the amount of a claim; NVIDIA's does not."""
        return resource == DRIVER

    @staticmethod
    def gpu_count(node: NodeFact) -> GpuCount | None:  # noqa: ARG004 drivers report cards elsewhere
        """Return None: nodes offer cards by ResourceSlices, which the ledger does not count."""
        return None

    def operator_problem(self) -> str | None:
        """Return why no device plugin offers the cards."""
        return "mode dra: cards are offered by a DRA driver, and no device plugin may offer them too"
