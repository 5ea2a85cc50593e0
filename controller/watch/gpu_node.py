"""The custom resource GpuNode, as the controller reads it: the report of a node's agent.

The API server bounds every number, text and list of it by the schema of the resource.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectMetadata, ObjectReader, logged
from kube.names import GPU_NODES_PATH, is_label_value
from ledger.use import MeasuredUse, PodUses, by_pod
from modes.facts import NodeAgent, NodeFact
from modes.mig_profiles import MigCard, MigProfile, card_of_profiles


class UnlimitedContainer(msgspec.Struct, frozen=True, gc=False):
    """A container with programs on a GPU that run without their limiter."""

    namespace: str
    pod: str
    container: str
    gpu: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    """Of its share."""


class UnlimitedContainers(msgspec.Struct, frozen=True, gc=False):
    """Those of one node: how many, and the first by name."""

    count: int = 0
    containers: tuple[UnlimitedContainer, ...] = ()


class ReportedUses(msgspec.Struct, frozen=True, gc=False):
    """Those of one node: how many, and the first by name."""

    count: int = 0
    containers: tuple[MeasuredUse, ...] = ()
    measured: str = ""
    """When that was measured; empty in reports of older agents."""


class AgentReport(msgspec.Struct, frozen=True, gc=False):
    """An agent's report on its node's GPUs, as far as the controller needs it."""

    node: str
    cards: tuple[tuple[int, int], ...]
    """(index, MiB) of each GPU that can be shared, by index."""
    models: tuple[str, ...] = ()
    """Model of each of `cards`, in the form of GPU feature discovery's label; empty if it is not a label
    value."""
    numa_nodes: tuple[int | None, ...] = ()
    """NUMA node of each of `cards`, as numbered by the kernel; None if unknown."""
    lists_gpus: bool = False
    """Whether it lists any GPU, shared or in MIG mode: GPUs that it does not list do not exist."""
    unhealthy: tuple[int, ...] = ()
    """Indices of `cards` that are not offered to new pods."""
    has_healthy_cards: bool = False
    """Whether it offers slices of any GPU to new pods."""
    is_registered: bool = False
    """Whether the kubelet counts every resource of the agent."""
    boot_id: str = ""
    """Boot ID of the node at the time of the report; empty if unknown."""
    held: tuple[tuple[int, int], ...] | None = None
    """(index, slices) that containers hold, by the kubelet's checkpoint; None if not reported."""
    unlimited: UnlimitedContainers = UnlimitedContainers()
    """Containers that run without their limiter; none if the agent does not search for them."""
    uses: ReportedUses | None = None
    """What containers use of their shares; None if the agent does not measure it."""
    offers_by_dra: bool = False
    """Whether the agent is a DRA driver: the kubelet counts nothing of its GPUs."""
    uuids: tuple[str, ...] = ()
    """UUID of each of `cards`; empty if the agent is a device plugin, or does not measure use."""
    mig_card: MigCard | None = None
    """How the driver can divide the cards in MIG mode; None if the agent reports no profiles."""

    @property
    def use(self) -> PodUses:
        """What pods use, on each GPU and on all."""
        if self.uses is None:
            return PodUses()
        containers = self.uses.containers
        uses = by_pod(containers, self.uses.measured, is_cut=self.uses.count > len(containers))
        return PodUses(uses, {uuid: index for uuid, (index, _) in zip(self.uuids, self.cards, strict=False)})


class _Card(msgspec.Struct, gc=False):
    index: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    uuid: str = ""
    model: str = ""
    held_slices: int | None = msgspec.field(default=None, name="heldSlices")
    healthy: bool = False
    mig: bool = False
    whole: bool = False
    numa_node: int | None = msgspec.field(default=None, name="numaNode")


class _Status(msgspec.Struct, gc=False):
    registered: bool = False
    boot_id: str = msgspec.field(default="", name="bootID")
    gpus: list[_Card] = []
    unlimited: UnlimitedContainers = UnlimitedContainers()
    usage: ReportedUses | None = None
    offer: str = ""
    mig_profiles: list[MigProfile] = msgspec.field(default=[], name="migProfiles")


class _GpuNode(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    status: _Status | None = None


def gpu_nodes() -> Resource[AgentReport]:
    """All GpuNodes. An unreadable one is ignored: then the node's labels count."""
    return Resource(
        "gpunodes",
        GPU_NODES_PATH,
        ObjectReader(_GpuNode, _report, logged("a GpuNode cannot be read: the node's labels count")),
    )


def report_from_object(found: Any) -> AgentReport:
    """Read one parsed GpuNode.

    Raises:
        ValueError: it is not a GpuNode, or two of its GPUs have the same index.
    """
    return _report(msgspec.convert(found, _GpuNode))


def _report(found: _GpuNode) -> AgentReport:
    """Return the report of a node's agent.

    Raises:
        ValueError: two cards have the same index.
    """
    status = found.status or _Status()
    shared = sorted(
        [card for card in status.gpus if not (card.mig or card.whole)], key=lambda card: card.index
    )
    if len({card.index for card in shared}) < len(shared):
        raise ValueError("two GPUs have the same index")
    by_dra = status.offer == "dra"
    return AgentReport(
        found.metadata.name,
        tuple([(card.index, card.memory_mib) for card in shared]),
        tuple([_as_label(card.model) for card in shared]),
        numa_nodes=tuple([card.numa_node for card in shared]),
        lists_gpus=bool(status.gpus),
        unhealthy=tuple([card.index for card in shared if not card.healthy]),
        has_healthy_cards=any(card.healthy for card in shared),
        is_registered=status.registered,
        boot_id=status.boot_id,
        held=_held(shared),
        unlimited=status.unlimited,
        uses=status.usage,
        offers_by_dra=by_dra,
        uuids=tuple([card.uuid for card in shared]) if by_dra and status.usage is not None else (),
        mig_card=card_of_profiles(status.gpus[0].model, status.mig_profiles) if status.gpus else None,
    )


def with_report(fact: NodeFact, report: AgentReport | None, agent: NodeAgent) -> NodeFact:
    """Return a node, known by only the Node so far, with its agent's report and whether that agent serves.

    Resource names of GPUs that the agent does not list, and that have no slices, are left out: the kubelet
    keeps reporting zero for every name that was ever registered.
    """
    if report is None:
        return msgspec.structs.replace(fact, agent=agent) if fact.agent != agent else fact
    there = {index for index, _ in report.cards}
    gpus = tuple([gpu for gpu in fact.gpus if gpu[1] or gpu[0] in there or not report.lists_gpus])
    pool_cards = _pool_cards(fact, report) if fact.pooled and agent == "serving" else ()
    return msgspec.structs.replace(
        fact,
        gpus=gpus,
        cards=report.cards,
        card_models=report.models,
        card_numa=_numa_nodes(report),
        pool_cards=pool_cards,
        pooled_gpus=len(pool_cards) or fact.pooled_gpus,
        reported_mig=report.mig_card,
        agent=agent,
    )


def _pool_cards(fact: NodeFact, report: AgentReport) -> tuple[tuple[int, int], ...]:
    """Return what is held on each healthy card; empty if that does not match what the node offers."""
    held = [(index, slices) for index, slices in report.held or () if index not in report.unhealthy]
    return tuple(held) if held and not fact.pooled % len(held) else ()


def _numa_nodes(report: AgentReport) -> tuple[int, ...]:
    """Return the NUMA node of each card; empty if all have the same one, or some are unknown."""
    known = tuple([node for node in report.numa_nodes if node is not None])
    return known if len(known) == len(report.cards) and len({*known}) > 1 else ()


def _as_label(model: str) -> str:
    """Return a model in the form of GPU feature discovery's label; empty if it is not a label value."""
    text = model.replace(" ", "-")
    return text if is_label_value(text) else ""


def _held(cards: list[_Card]) -> tuple[tuple[int, int], ...] | None:
    held = [(card.index, card.held_slices) for card in cards if card.held_slices is not None]
    return tuple(sorted(held)) if len(held) == len(cards) else None
