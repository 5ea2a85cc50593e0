"""What every mode says of itself: one module a mode behind this protocol (modes/registry.py lists them)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Protocol

from modes.fraction import Fraction
from modes.instance import Instance
from modes.packing import SlicePrices
from modes.resource_kinds import ResourceKinds
from modes.resource_names import ResourceNames

ModeName = Literal["per-gpu", "pooled", "mig"]
"""What policies and placement requests call the modes."""
DEFAULT_MODE: ModeName = "per-gpu"

GpuCount = tuple[int, int]
"""GPUs of a node under a mode (0 where nothing tells), and slices that each is divided into (0 while the
device plugin is away)."""


Offer = tuple[str, tuple[int | None, ...]]
"""A model of GPU by its label, and the stocks of instances on such nodes (None: the node's pool)."""


class NodeGpus(Protocol):
    """What modes read of a node (ledger/facts.py says what each is)."""

    @property
    def gpus(self) -> tuple[tuple[int, int], ...]: ...  # noqa: D102 - the words are those of NodeFact
    @property
    def slices_per_gpu(self) -> int: ...  # noqa: D102
    @property
    def pooled(self) -> int: ...  # noqa: D102
    @property
    def pooled_gpus(self) -> int: ...  # noqa: D102
    @property
    def instances(self) -> tuple[tuple[int, int], ...]: ...  # noqa: D102
    @property
    def labels(self) -> dict[str, str]: ...  # noqa: D102


class NodeSlices(Protocol):
    """What modes read of the nodes of one shape (ledger/placement/shape_capacity.py says what each is)."""

    @property
    def slices(self) -> dict[int, int]: ...  # noqa: D102 - the words are those of ShapeCapacity
    @property
    def pooled(self) -> int: ...  # noqa: D102
    @property
    def instances(self) -> dict[int, int]: ...  # noqa: D102


class FreeSlices(Protocol):
    """What modes read of a node's account (ledger/accounts.py says what each is)."""

    def state(self) -> tuple[int, ...]: ...  # noqa: D102 - the words are those of NodeAccount
    def placeable_pool(self) -> int: ...  # noqa: D102
    def pool_state(self) -> tuple[int, ...]: ...  # noqa: D102
    def free_instances(self, number: int) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class OperatorValues:
    """What a mode needs of NVIDIA's GPU operator, beside what all need."""

    note: str
    """What an admin should know of such nodes, as one sentence."""
    device_plugin: Sequence[str]
    """Lines of the values that name another device plugin than NVIDIA's; empty keeps NVIDIA's."""
    renamed: Sequence[tuple[str, str]]
    """Resource name and device of each GPU that is shared by itself; empty shares all under one name."""
    exporter_names: Sequence[str]
    """Resource names by which the exporter finds pods; empty keeps its own."""
    is_shared: bool = True
    """Whether the device plugin divides what it finds by time slicing."""


@dataclass(frozen=True)
class Mode(ABC):
    """A way to ask the scheduler and the kubelet for slices.

    A class is the mode, and says what holds under every policy. An instance is the mode under one policy.

    Args:
        resource: the policy's `resources.name`, free of problems.
        counted: resource names of this and every other policy of the set.
        allowed: resource names that the policy knows for no GPU.
        instance_prefix: what names of instances begin with that pods may have too; empty where they may not.
    """

    name: ClassVar[ModeName]
    default_resource: ClassVar[str]
    """`resources.name` of policies that say none."""
    prices_node_classes: ClassVar[bool]
    """Whether pods of the mode make slices dearer on classes of nodes that few others can replace."""
    unknown_placeholders: ClassVar[frozenset[str]]
    """Placeholders of variables that a placement has no value for."""
    replace_waiting_problem: ClassVar[str | None]
    """Why a policy cannot say `replaceWaiting`; None if it can."""
    several_gpus_problem: ClassVar[str | None]
    """Why a pod cannot ask the same part of each of several GPUs, and what to do; None if it can."""
    several_containers_problem: ClassVar[str | None] = None
    """Why several containers of a pod cannot share its GPU, and what to do; None if they can."""
    needs_cdi: ClassVar[bool]
    """Whether GPU-operator values turn CDI on unless the admin says else."""
    chooses_gpus: ClassVar[bool] = False
    """Whether a placement chooses the GPUs of a node; else the kubelet does."""
    gives_instances: ClassVar[bool] = False
    """Whether a share is an instance of a size that the nodes decide, and held in hardware, not slices."""

    resource: str
    counted: ResourceNames
    allowed: frozenset[str]
    instance_prefix: str = ""

    @cached_property
    @abstractmethod
    def kinds(self) -> ResourceKinds:
        """What each resource name means under the policy."""

    @abstractmethod
    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:
        """Return resource names and quantities for limits and requests of a GPU container."""

    @staticmethod
    @abstractmethod
    def read_indices(text: str | None, fraction: Fraction) -> tuple[int, ...] | None:
        """Return the GPUs of an earlier placement from its annotation; None if it cannot be one's."""

    def share_text(self, fraction: Fraction) -> str:
        """Return what a pod with the fraction asks for, such as "4 of 8 slices, nvidia.com/gpu: 4"."""
        return f"{fraction.slices} of {fraction.slices_per_gpu} slices, {self.resource}: {fraction.slices}"

    @staticmethod
    @abstractmethod
    def name_problem(resource: str) -> str | None:
        """Return why a policy of this mode cannot have such a `resources.name`; None if it can."""

    @staticmethod
    @abstractmethod
    def index_prefix(resource: str) -> str | None:
        """Return what names of single GPUs begin with under a `resources.name`; None if it is one name."""

    @staticmethod
    @abstractmethod
    def gpu_count(node: NodeGpus) -> GpuCount | None:
        """Count the GPUs that a node offers under the mode; None if it offers none."""

    @classmethod
    def stocks(cls, node: NodeGpus) -> tuple[int | None, ...]:
        """Return what parts of a node a pod takes from one of; None where it has no such parts."""
        return (None,) if cls.gpu_count(node) is not None else ()

    @staticmethod
    @abstractmethod
    def slices(node: NodeGpus) -> int:
        """Return all slices that a node offers under the mode."""

    @staticmethod
    @abstractmethod
    def fit(node: NodeGpus, fraction: Fraction) -> int:
        """Return how many pods of one fraction an empty node holds."""

    @staticmethod
    @abstractmethod
    def capacity(nodes: NodeSlices, stock: int | None) -> dict[int, int] | dict[None, int]:
        """Return the slices that pods can wait for by index of the GPU, or those of the pool under None.

        Of instances, those of one of its `stocks`.
        """

    @staticmethod
    @abstractmethod
    def free(account: FreeSlices, stock: int | None) -> tuple[int, ...]:
        """Return the free slices of each GPU of a node, sorted, of its pool, or of one of its `stocks`."""

    @staticmethod
    @abstractmethod
    def score(free: Sequence[int], fraction: Fraction, prices: SlicePrices) -> int | None:
        """Return how good such free slices are for a pod, in UNITs of a slice; None if they have no room."""

    @staticmethod
    @abstractmethod
    def choosable(gpus: Mapping[int, int]) -> Mapping[int, int]:
        """Return those of a node's GPUs that a placement chooses from; none if the kubelet chooses."""

    @staticmethod
    def instances(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> list[Instance]:  # noqa: ARG004
        """Return the instances that a share can be, the best first; none where it is slices."""
        return []

    @staticmethod
    def none_holds(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> str:  # noqa: ARG004
        """Return why a share is none of the instances, as half a sentence that says what to do."""
        return "shares are no instances: use another mode"

    @abstractmethod
    def operator_problem(self, *, cdi: bool) -> str | None:
        """Return why no GPU-operator values can make nodes fit the policy; None if some can."""

    @abstractmethod
    def operator_values(self, gpus: int) -> OperatorValues:
        """Return the mode's part of GPU-operator values for nodes of so many GPUs."""
