"""One class of nodes that are alike for pods, as far as classes distinguish nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Taint
from ledger.accounts import NodeAccount
from ledger.placement.cards import CardSet, CardSets, Layout, layout
from ledger.placement.free_places import FreePlaces
from ledger.placement.label_index import NodeSet
from ledger.placement.node_groups import CardGroups, NodeGroups
from ledger.placement.packing import UNIT
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement.shape_capacity import ShapeCapacity
from modes.facts import NodeAgent, NodeFact
from modes.mode import GpuCount, ModeName
from modes.registry import MODES
from modes.units import POOL, Unit, index_of

_CPU_STEP, _MAX_CPU_STEPS = 16_000, 64
"""Nodes with similar CPU share a class: milli-CPU per step, and the number of distinguished steps."""
_PER_CPU_STEP = UNIT // 62_500
"""Cost of a slice per step of a node's CPU: of equally good classes, the one with less CPU is taken."""
_REFUSING = tuple(key for mode in MODES.values() for key in mode.refusing_labels)
_Shape = tuple[
    tuple[int, ...],
    tuple[GpuCount | None, ...],
    tuple[int | None, ...],
    tuple[str, ...],
    int | None,
    int,
    NodeAgent,
    Layout | None,
]
ClassLabels = tuple[tuple[str, str | None], ...]
ClassKey = tuple[_Shape, tuple[Taint, ...], ClassLabels]
Alike = tuple[NodeFact, NodeSet]
"""One of the nodes of a class that now offer the same and have one model, and the set of these nodes."""


class NodeClass:
    """Nodes of one shape, with the same taints and the same values of some labels."""

    def __init__(self, key: ClassKey, sample: NodeFact) -> None:
        self.key = key
        self.order = repr(key)
        """Sorts classes independently of the order in which their nodes came."""
        self.sample = sample
        """A node of the class; its shape and taints are those of all members."""
        self.cpu_steps = cpu_steps(sample.cpu_milli)
        self.groups = {
            (name, resource_unit): NodeGroups(mode, resource_unit)
            for name, mode in MODES.items()
            for resource_unit in {POOL, *mode.resource_units(sample)}
        }
        """Members by their free amounts, as each mode counts them, for each resource unit of the mode."""
        self._offered = [
            self.groups[name, resource_unit]
            for name, mode in MODES.items()
            for resource_unit in mode.resource_units(sample)
        ]
        self._priced = [self.groups[name, POOL] for name, mode in MODES.items() if mode.prices_node_classes]
        self._by_cards: dict[CardSet, CardGroups] = {}
        """Groups by the GPUs that some pods accept on odd nodes; cards.py bounds the number of sets."""
        self.slice_cost = self.cpu_steps * _PER_CPU_STEP
        """Cost of a slice, in UNITs of a slice: small, for ties between classes with more and less CPU."""
        self.worth: ShadowPrices | None = None
        """Worth of free slices here (expected_pods.py); None until prices are renewed."""
        for groups in self._priced:
            groups.set_worth(None, self.slice_cost)
        self.members: dict[str, NodeAccount] = {}
        self.nodes: NodeSet = 0
        """The members as a set."""
        self._alike: dict[Hashable, Alike] = {}
        self.usable = ShapeCapacity(sample)
        """Capacity of the members that take pods now."""
        self.unusable = ShapeCapacity(sample)

    def rename(self, key: ClassKey, sample: NodeFact) -> None:
        """Change the labels that distinguish the class; `sample` is a member with these values."""
        self.key = key
        self.order = repr(key)
        self.sample = sample

    @property
    def is_odd(self) -> bool:
        """Whether the members' cards differ from their labels."""
        return self.key[0][-1] is not None

    def set_worth(self, worth: ShadowPrices | None) -> None:
        """Set what free slices are worth here."""
        self.worth = worth
        for groups in (*self._priced, *self._by_cards.values()):
            groups.set_worth(worth, self.slice_cost)

    def groups_of(self, mode: ModeName, resource_unit: Unit, sets: CardSets | None) -> list[NodeGroups]:
        """Return the groups to search for a pod that accepts these sets of GPUs (None: any GPU)."""
        return (
            [self.groups[mode, resource_unit]]
            if sets is None
            else [self._of_cards(mode, each) for each in sets]
        )

    def _of_cards(self, mode: ModeName, chosen: CardSet) -> NodeGroups:
        groups = self._by_cards.get(chosen)
        if groups is None:
            groups = self._by_cards[chosen] = CardGroups(MODES[mode], chosen)
            groups.set_worth(self.worth, self.slice_cost)
            for account in self.members.values():
                if account.fact is not None and account.fact.usable:
                    groups.insert(account)
            self._offered.append(groups)
        return groups

    @property
    def capacity(self) -> int:
        """Slices of the members that take pods now."""
        return sum(self.usable.slices.values())

    def free_places(self) -> FreePlaces:
        """The places in the free slices of the members that take pods now."""
        places = FreePlaces(self.sample.slices_per_gpu)
        for groups in self._priced:
            for free, nodes in groups.counts():
                places.add(free, nodes)
        return places

    def add(self, account: NodeAccount, fact: NodeFact, number: int) -> None:
        """Add a member with these facts; the inverse of `remove`."""
        self.members[account.name] = account
        account.node_class = self
        self._capacity(fact).add(fact)
        self.nodes |= 1 << number
        key = _offer(fact)
        sample, nodes = self._alike.get(key, (fact, 0))
        self._alike[key] = sample, nodes | 1 << number

    def insert(self, account: NodeAccount, fact: NodeFact) -> None:
        """Insert a member into the groups of its current state; an unusable member is in none."""
        if not fact.usable:
            return
        for groups in self._offered:
            groups.insert(account)

    def remove(self, name: str, fact: NodeFact, number: int) -> None:
        """Remove a member; `fact` is the one with which it was added. The inverse of `add`."""
        del self.members[name]
        self._capacity(fact).remove(fact)
        self.nodes ^= 1 << number
        key = _offer(fact)
        sample, nodes = self._alike[key]
        if nodes == 1 << number:
            del self._alike[key]
        else:
            self._alike[key] = sample, nodes ^ 1 << number
        if fact.usable:
            for groups in self._offered:
                groups.remove(name)

    def alike_in(self, nodes: NodeSet) -> Iterator[tuple[NodeFact, int]]:
        """Yield one sample for all members of a set that offer the same, and their number."""
        for sample, members in self._alike.values():
            count = (members & nodes).bit_count()
            if count:
                yield sample, count

    def _capacity(self, fact: NodeFact) -> ShapeCapacity:
        return self.usable if fact.usable else self.unusable


def shape_of(fact: NodeFact) -> _Shape:
    """Return the part of a node's facts that decides its class: GPUs, CPU, agent."""
    indices = tuple(index for index, _ in fact.gpus)
    return (
        indices,
        tuple([mode.gpu_count(fact) for mode in MODES.values()]),
        tuple([index_of(unit) for mode in MODES.values() for unit in mode.resource_units(fact)]),
        (fact.pool, *[fact.labels.get(key) or "" for key in _REFUSING]) if fact.pool else (),
        fact.gpu_mib,
        cpu_steps(fact.cpu_milli),
        fact.agent,
        layout(fact),
    )


def cpu_steps(cpu_milli: int) -> int:
    """CPU in whole steps."""
    return min(cpu_milli // _CPU_STEP, _MAX_CPU_STEPS)


def _offer(fact: NodeFact) -> Hashable:
    """What pods can wait for on a node, and what may differ between members of a class."""
    offered = fact.usable, fact.gpus, fact.cordoned, fact.pooled, fact.instances
    return offered, fact.labels.get(GPU_PRODUCT_LABEL)
