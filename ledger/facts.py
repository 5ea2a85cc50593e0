"""What the ledger knows of nodes and pods: small frozen facts, made by ledger/from_kubernetes.py."""

from __future__ import annotations

from typing import Literal

import msgspec

from kube.scheduling import Taint

UNLIMITED = 1 << 60
"""CPU or memory of a node that does not state it: never what a placement fails for."""


NodeAgent = Literal["unknown", "missing", "away", "serving"]
"""Whether an agent of ours limits containers on a node: nobody tells, never did, did and may again, does."""
PodKey = tuple[str, str]
"""Namespace and name. Never joined into one text: other pairs could make the same one."""


class NodeFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node with GPUs, or without."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    """Taints that someone set on purpose; those of `node.kubernetes.io/` are in `usable`."""
    usable: bool = True
    """Ready, schedulable and without a taint of the node life cycle."""
    gpus: tuple[tuple[int, int], ...] = ()
    """(index, allocatable slices) of each GPU with a resource name of its own, by index."""
    slices_per_gpu: int = 0
    """Slices that each of `gpus` is divided into; 0 while the device plugin is away."""
    pooled: int = 0
    """Slices of all GPUs together, where they share one resource name."""
    pooled_gpus: int = 0
    """GPUs behind `pooled`; 0 where no label tells."""
    instances: tuple[tuple[int, int], ...] = ()
    """(number of a profile, allocatable MIG instances), by number (modes/mig_instances.py)."""
    gpu_mib: int | None = None
    """MiB of one GPU by the label nvidia.com/gpu.memory; None where the label is missing or no number."""
    cards: tuple[tuple[int, int], ...] = ()
    """(index, MiB) of each GPU as the node's agent says, by index; empty where no agent does."""
    card_models: tuple[str, ...] = ()
    """Model of each of `cards`, written as the label nvidia.com/gpu.product would be; empty where unknown."""
    card_numa: tuple[int, ...] = ()
    """NUMA node of each of `cards`; empty where they are all of one, or the agent does not tell of each."""
    pool_cards: tuple[tuple[int, int], ...] = ()
    """(index, slices that containers hold) of each healthy GPU behind `pooled`, as the node's agent says."""
    agent: NodeAgent = "unknown"
    cpu_milli: int = UNLIMITED
    memory_bytes: int = UNLIMITED
    cordoned: frozenset[int] = frozenset()
    """Indices that are taken out of placement: by the node's annotation clearml-injector/cordon, or as
    `offered_twice`."""
    offered_twice: frozenset[int] = frozenset()
    """Of `gpus` those that a DRA driver offers too; all of them where nobody tells which."""
    is_offered_twice: bool = False
    """Whether a DRA driver offers all GPUs of the node too, or nobody tells which: no pod goes there."""

    def card_mib(self, indices: tuple[int, ...]) -> int | None:
        """MiB of the smallest of some GPUs: of the cards, else what the node's label says of all."""
        if not self.cards:
            return self.gpu_mib
        known = dict(self.cards)
        mib = [known[index] for index in indices or known if index in known]
        return min(mib) if mib and len(mib) == len(indices or known) else self.gpu_mib


class PodFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod. A terminating one holds what it has until it is gone."""

    namespace: str
    name: str
    node: str | None = None
    """Node that it is bound to."""
    is_over: bool = False
    """Phase Succeeded or Failed: it holds nothing any more."""
    gpus: tuple[tuple[int, int], ...] = ()
    """(index, slices) effectively requested, by index; MIG instances under the number of their profile."""
    pooled: int = 0
    """Slices of the pooled names effectively requested."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    more_eighths: int = 0
    """Eighths of cards that its MIG instances are worth, beyond one for each."""
    products: tuple[str, ...] = ()
    """Values of nvidia.com/gpu.product that a pod requires which may get MIG instances."""
    queues: tuple[str, ...] = ()
    """Keys of its ClearML queue (ledger/queue_names.py), as its labels name it: by name, by id."""
    share: tuple[int, int] | None = None
    """Share of each GPU as its label says it, numerator and denominator; None where none does."""
    asked_mib: int = 0
    """MiB of each GPU that its label asks for, of all where containers share them; 0 where none does."""
    sharing: int = 1
    """Containers that share `asked_mib`."""
    in_slices: bool = False
    """Whether no MiB were written into it, so that its slices are its limit, whatever its label says."""
    reservation: str | None = None
    """The reservation that its annotation claims to be."""
    promised_node: str | None = None
    """Node that an unbound pod prefers by name, as long as the scheduler has not yet failed to place it."""
    memory_values: tuple[str, ...] | None = None
    """Values of nvidia.com/gpu.memory that an unbound pod requires; None when it requires none."""
    model: str | None = None
    """The one value of nvidia.com/gpu.product that an unbound pod requires; None when it requires none."""
    owner: str = ""
    """Key of what it is a replica of (ledger/owners.py); empty without slices, or where it stands alone."""
    is_reserved: bool = False
    """Nobody has seen it: it stands for pods that were only placed."""

    @property
    def key(self) -> PodKey:
        """Unique among the pods of a cluster at one time."""
        return self.namespace, self.name

    @property
    def models(self) -> tuple[str, ...]:
        """Values of nvidia.com/gpu.product that it requires, as far as they are kept; empty for any."""
        return (self.model,) if self.model is not None else self.products

    @property
    def slices(self) -> int:
        """All slices requested, MIG instances as the eighths that they are worth."""
        return sum([slices for _, slices in self.gpus]) + self.pooled + self.more_eighths
