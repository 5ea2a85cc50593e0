"""One class of nodes that are alike to pods, as far as classes are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Taint
from ledger.accounts import NodeAccount
from ledger.facts import NodeAgent, NodeFact
from ledger.placement.cards import CardSet, CardSets, Layout, layout
from ledger.placement.label_index import NodeSet
from ledger.placement.node_groups import CardGroups, NodeGroups
from ledger.placement.request_history import FreeGpus
from ledger.placement.shape_capacity import ShapeCapacity
from modes.mode import GpuCount, ModeName
from modes.packing import UNIT
from modes.registry import MODES

_CPU_STEP, _MAX_CPU_STEPS = 16_000, 64
"""Nodes with about as much CPU are alike: milli-CPU of a step, and steps that are told apart."""
_PER_CPU_STEP = UNIT // 62_500
"""What a slice costs by each step of a node's CPU: of classes that are equally good the smaller is taken."""
_Shape = tuple[
    tuple[int, ...],
    tuple[GpuCount | None, ...],
    tuple[int | None, ...],
    int | None,
    int,
    NodeAgent,
    tuple[bool, tuple[int, ...]],
    Layout | None,
]
ClassLabels = tuple[tuple[str, str | None], ...]
ClassKey = tuple[_Shape, tuple[Taint, ...], ClassLabels]
Alike = tuple[NodeFact, NodeSet]
"""Nodes of a class that also offer the same at this moment, and are of one model; and one of them."""


class NodeClass:
    """Nodes of one shape, with the same taints and the same values of some labels."""

    def __init__(self, key: ClassKey, sample: NodeFact) -> None:
        self.key = key
        self.order = repr(key)
        """Sorts classes the same way whatever order their nodes came in."""
        self.sample = sample
        """Some node of the class: it speaks for all in shape and taints."""
        self.cpu_steps = cpu_steps(sample.cpu_milli)
        self.groups = {
            (name, stock): NodeGroups(mode, stock)
            for name, mode in MODES.items()
            for stock in {None, *mode.stocks(sample)}
        }
        """Its members by what they have free, as each mode counts it, of each of its stocks."""
        self._offered = [
            self.groups[name, stock] for name, mode in MODES.items() for stock in mode.stocks(sample)
        ]
        self._priced = [self.groups[name, None] for name, mode in MODES.items() if mode.prices_node_classes]
        self._by_cards: dict[CardSet, CardGroups] = {}
        """By GPUs that some pods take of odd nodes; cards.py bounds how many sets there are."""
        self.price = self.slice_cost = 0
        """What a slice costs by what pods accept (see node_class_prices), and in all; in UNITs of a slice."""
        self.set_price(0)
        self.members: dict[str, NodeAccount] = {}
        self.nodes: NodeSet = 0
        """Its members."""
        self._alike: dict[Hashable, Alike] = {}
        self.usable = ShapeCapacity(sample)
        """What its members that take pods now offer."""
        self.unusable = ShapeCapacity(sample)

    def rename(self, key: ClassKey, sample: NodeFact) -> None:
        """Tell it from other classes by other labels; `sample` is a member that has these values."""
        self.key = key
        self.order = repr(key)
        self.sample = sample

    @property
    def is_odd(self) -> bool:
        """Whether its members' cards are not what their labels say."""
        return self.key[0][-1] is not None

    def set_price(self, price: int) -> None:
        """Set what a slice costs here, beside what classes with more CPU cost anyway."""
        self.price = price
        self.slice_cost = price + self.cpu_steps * _PER_CPU_STEP
        for groups in (*self._priced, *self._by_cards.values()):
            groups.set_slice_cost(self.slice_cost)

    def groups_of(self, mode: ModeName, stock: int | None, sets: CardSets | None) -> list[NodeGroups]:
        """Return the groups in which to look for a pod that takes the GPUs of one of some sets."""
        return [self.groups[mode, stock]] if sets is None else [self._of_cards(mode, each) for each in sets]

    def _of_cards(self, mode: ModeName, chosen: CardSet) -> NodeGroups:
        groups = self._by_cards.get(chosen)
        if groups is None:
            groups = self._by_cards[chosen] = CardGroups(MODES[mode], chosen)
            groups.set_slice_cost(self.slice_cost)
            for account in self.members.values():
                if account.fact is not None and account.fact.usable:
                    groups.seat(account)
            self._offered.append(groups)
        return groups

    def free(self) -> int:
        """Free slices that the price counts for."""
        return sum([groups.free() for groups in self._priced])

    def cpu_free(self) -> int:
        """Milli-CPU that is free on its members that take pods now."""
        accounts = self.members.values()
        return sum([each.cpu_free for each in accounts if each.fact is not None and each.fact.usable])

    def idle(self) -> Counter[int]:
        """Nodes by how many idle GPUs they have."""
        return sum([groups.idle(self.sample.slices_per_gpu) for groups in self._priced], Counter[int]())

    def add(self, account: NodeAccount, fact: NodeFact, number: int) -> None:
        """Enter a member that states such facts; the inverse of `remove`."""
        self.members[account.name] = account
        account.node_class = self
        self._capacity(fact).add(fact)
        self.nodes |= 1 << number
        key = _offer(fact)
        sample, nodes = self._alike.get(key, (fact, 0))
        self._alike[key] = sample, nodes | 1 << number

    def seat(self, account: NodeAccount, fact: NodeFact) -> None:
        """Put a member into the groups where it belongs now; an unusable one is in none."""
        if not fact.usable:
            return
        for groups in self._offered:
            groups.seat(account)

    def remove(self, name: str, fact: NodeFact, number: int) -> None:
        """Let a member go that stated such facts when it came; the inverse of `add`."""
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
        """Give a sample of those members in a set that offer the same, and how many these are."""
        for sample, members in self._alike.values():
            count = (members & nodes).bit_count()
            if count:
                yield sample, count

    def _capacity(self, fact: NodeFact) -> ShapeCapacity:
        return self.usable if fact.usable else self.unusable


def free_gpus(classes: Iterable[NodeClass]) -> FreeGpus:
    """Return what is free, and what is taken, on the nodes of classes whose GPUs have as many slices."""
    slices = taken_slices = cpu_milli = taken_cpu_milli = 0
    idle = Counter[int]()
    for node_class in classes:
        offered = sum(node_class.usable.slices.values())
        if not offered:
            continue
        free, cpu_free = node_class.free(), node_class.cpu_free()
        slices += free
        taken_slices += offered - free
        cpu_milli += cpu_free
        taken_cpu_milli += node_class.usable.cpu_milli - cpu_free
        idle.update(node_class.idle())
    return FreeGpus(slices, idle, cpu_milli, taken_slices, taken_cpu_milli)


def shape_of(fact: NodeFact) -> _Shape:
    """Return what of a node's GPUs, CPU, agent and DRA driver decides its class."""
    indices = tuple(index for index, _ in fact.gpus)
    return (
        indices,
        tuple([mode.gpu_count(fact) for mode in MODES.values()]),
        tuple([stock for mode in MODES.values() if mode.gives_instances for stock in mode.stocks(fact)]),
        fact.gpu_mib,
        cpu_steps(fact.cpu_milli),
        fact.agent,
        (fact.is_offered_twice, tuple(sorted(fact.offered_twice))),
        layout(fact),
    )


def cpu_steps(cpu_milli: int) -> int:
    """About how much CPU, in whole steps."""
    return min(cpu_milli // _CPU_STEP, _MAX_CPU_STEPS)


def _offer(fact: NodeFact) -> Hashable:
    """What of a node a pod can wait for, that members of a class need not have in common."""
    offered = fact.usable, fact.gpus, fact.cordoned, fact.pooled, fact.instances
    return offered, fact.labels.get(GPU_PRODUCT_LABEL)
