"""The interface of a mode: each mode is one module that implements it (modes/registry.py lists them)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.instance import Instance
from modes.mig_profiles import MigCard
from modes.resource_kinds import ResourceKinds
from modes.resource_names import INDEX, ResourceNames
from modes.units import POOL, Unit

ModeName = Literal["per-gpu", "pooled", "dra", "mig"]
"""The modes' names in policies and placement requests."""
DEFAULT_MODE: ModeName = "per-gpu"

GpuCount = tuple[int, int]
"""The GPUs that a node offers under a mode (0 if unknown), and the slices of each (0 while the device plugin
is not registered)."""


Offer = tuple[str, MigCard | None, tuple[Unit, ...]]
"""A GPU model by its label, how it can be divided (None if unknown), and the units that such nodes offer."""


@dataclass(frozen=True)
class Mode(ABC):
    """A way to request slices from the scheduler and the kubelet.

    The class is the mode: its attributes hold under every policy. An instance is the mode under one policy.

    Args:
        resource: the policy's `resources.name`, already validated.
        counted: resource names of this policy and all others of the set.
        allowed: resource names that the policy lists as not a GPU.
        instance_prefix: prefix of the instance resources that pods may request too; empty if they may not.
    """

    name: ClassVar[ModeName]
    default_resource: ClassVar[str]
    """`resources.name` of policies that do not set it."""
    prices_node_classes: ClassVar[bool]
    """Whether pods of the mode raise the price of slices on classes of nodes that few others can replace."""
    unknown_placeholders: ClassVar[frozenset[str]]
    """Placeholders of variables for which a placement has no value."""
    several_gpus_problem: ClassVar[str | None]
    """Why a pod cannot request the same part of each of several GPUs, and what to do; None if it can."""
    several_containers_problem: ClassVar[str | None] = None
    """Why several containers of a pod cannot share its GPU, and what to do; None if they can."""
    chooses_gpus: ClassVar[bool] = False
    """Whether the placement chooses the GPUs; otherwise the kubelet or the scheduler does."""
    counts_slices: ClassVar[bool] = True
    """Whether the request decides how many slices quotas count; otherwise what the pod gets does."""
    gives_instances: ClassVar[bool] = False
    """Whether a share is a MIG instance, whose profile the placement chooses."""
    is_claimed: ClassVar[bool] = False
    """Whether pods get a ResourceClaim instead of amounts of resources, and the scheduler chooses the GPUs.
    `resource` is then the driver of their claims."""
    refusing_labels: ClassVar[Mapping[str, str]] = {}
    """Labels, each with its value, of nodes whose device plugin always fails some pods (`refusing_nodes`)."""
    needs_limiter: ClassVar[bool] = True
    """Whether software must limit a share; otherwise what it takes has a limit of its own."""

    unsupported: ClassVar[Mapping[str, str]] = {"resources.driver": "is for mode dra: leave it out"}
    """Keys of a policy that mean nothing in the mode unless they have their default value, and why."""

    resource: str
    counted: ResourceNames
    allowed: frozenset[str]
    instance_prefix: str = ""

    @cached_property
    @abstractmethod
    def kinds(self) -> ResourceKinds:
        """The meaning of each resource name under the policy."""

    @abstractmethod
    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:
        """Return resource names and quantities for the limits and requests of a GPU container."""

    @property
    def pool(self) -> str:
        """The one name under which pods request slices of any GPU; empty in other modes."""
        return ""

    @classmethod
    def refusing_nodes(cls, fraction: Fraction) -> Mapping[str, str]:  # noqa: ARG003 most refuse none
        """Return those of `refusing_labels` whose nodes fail a pod with the fraction."""
        return {}

    @staticmethod
    def read_indices(text: str | None, fraction: Fraction) -> tuple[int, ...] | None:  # noqa: ARG004 no GPUs
        """Return the GPUs of an earlier placement from its annotation; None if the annotation is invalid."""
        return () if text is None else None

    def share_text(self, fraction: Fraction) -> str:
        """Return what a pod with the fraction requests, such as "4 of 8 slices, nvidia.com/gpu: 4"."""
        if fraction.is_of_memory:
            each = f" of each of {fraction.gpus} GPUs" if fraction.gpus > 1 else ""
            return (
                f"{fraction.mib} MiB{each}, on the fewest of {fraction.slices_per_gpu} slices that hold them"
            )
        resource = self.resource.replace(INDEX, "<i>")
        return f"{fraction.slices} of {fraction.slices_per_gpu} slices, {resource}: {fraction.slices}"

    @staticmethod
    @abstractmethod
    def name_problem(resource: str) -> str | None:
        """Return why a policy of this mode cannot have this `resources.name`; None if it can."""

    @classmethod
    def limits_itself(cls, resource: str) -> bool:  # noqa: ARG003 most do not
        """Whether what offers the GPUs always enforces a share, whatever `limits.from` of the policy."""
        return False

    @staticmethod
    def index_prefix(resource: str) -> str | None:  # noqa: ARG004 one name
        """Return the prefix of the names of single GPUs under a `resources.name`; None if it is one name."""
        return None

    @staticmethod
    @abstractmethod
    def gpu_count(node: NodeFact) -> GpuCount | None:
        """Count the GPUs that a node offers under the mode; None if it offers none."""

    @classmethod
    def resource_units(cls, node: NodeFact) -> tuple[Unit, ...]:
        """Return the alternatives that a node offers a pod: MIG profiles, or `(POOL,)` for slices."""
        return (POOL,) if cls.gpu_count(node) is not None else ()

    @classmethod
    def choosable(cls, gpus: Mapping[int, int]) -> Mapping[int, int]:
        """Return the node's GPUs that a placement can choose; none if the kubelet chooses."""
        return gpus if cls.chooses_gpus else {}

    @staticmethod
    def instances(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> list[Instance]:  # noqa: ARG004
        """Return the instances that can serve a share, the best first; none if shares are slices."""
        return []

    def operator_problem(self) -> str | None:
        """Return why a device plugin of NVIDIA's GPU operator cannot offer what pods request, if so."""
        return None

    @staticmethod
    def none_holds(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> str:  # noqa: ARG004
        """Return why no instance serves a share, as a clause that says what to do."""
        return "shares are not instances: use another mode"
