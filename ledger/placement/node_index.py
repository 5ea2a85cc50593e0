"""All node accounts, kept in classes of nodes that no pod so far could tell apart by what they state.

A class is one shape of GPUs, about one amount of CPU, one state of the node agent, one set of taints, and one
value for each label key that pods have asked for. Keys that almost every node has a value of its own for, as
for the host name, make no classes: nodes are then asked one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kube.scheduling import Taint
from ledger.accounts import Claim, ClaimKey, NodeAccount
from ledger.facts import NodeAgent, NodeFact
from ledger.placement.node_groups import NodeGroups
from ledger.placement.request_history import FreeGpus
from ledger.placement.shape_capacity import ShapeCapacity
from ledger.totals import RunningTotals
from modes.mode import GpuCount
from modes.packing import UNIT
from modes.registry import MODES

MAX_VALUES_OF_A_CLASS_KEY = 64
_CPU_STEP, _MAX_CPU_STEPS = 16_000, 64
"""Nodes with about as much CPU are alike: milli-CPU of a step, and steps that are told apart."""
_PER_CPU_STEP = UNIT // 62_500
"""What a slice costs by each step of a node's CPU: of classes that are equally good the smaller is taken."""
_Shape = tuple[
    tuple[int, ...], tuple[GpuCount | None, ...], tuple[int | None, ...], int | None, int, NodeAgent
]
ClassKey = tuple[_Shape, tuple[Taint, ...], tuple[str | None, ...]]


class NodeClass:
    """Nodes that are alike to every pod so far."""

    def __init__(self, key: ClassKey, sample: NodeFact) -> None:
        self.key = key
        self.order = repr(key)
        """Sorts classes the same way whatever order their nodes came in."""
        self.sample = sample
        """Some node of the class: it speaks for all in shape, taints and the labels that pods asked for."""
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
        self.price = self.slice_cost = 0
        """What a slice costs by what pods accept (see node_class_prices), and in all; in UNITs of a slice."""
        self.set_price(0)
        self.members: dict[str, NodeAccount] = {}
        self.usable = ShapeCapacity(sample)
        """What its members that take pods now offer."""
        self.unusable = ShapeCapacity(sample)

    def rename(self, key: ClassKey, sample: NodeFact) -> None:
        """Tell it from other classes by more labels; `sample` is a member that has these values."""
        self.key = key
        self.order = repr(key)
        self.sample = sample

    def set_price(self, price: int) -> None:
        """Set what a slice costs here, beside what classes with more CPU cost anyway."""
        self.price = price
        self.slice_cost = price + self.cpu_steps * _PER_CPU_STEP
        for groups in self._priced:
            groups.set_slice_cost(self.slice_cost)

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

    def add(self, account: NodeAccount, fact: NodeFact) -> None:
        """Enter a member that states such facts; the inverse of `remove`."""
        self.members[account.name] = account
        account.node_class = self
        self._capacity(fact).add(fact)

    def seat(self, account: NodeAccount, fact: NodeFact) -> None:
        """Put a member into the groups where it belongs now; an unusable one is in none."""
        if not fact.usable:
            return
        for groups in self._offered:
            groups.seat(account)

    def remove(self, name: str, fact: NodeFact) -> None:
        """Let a member go that stated such facts when it came; the inverse of `add`."""
        del self.members[name]
        self._capacity(fact).remove(fact)
        if fact.usable:
            for groups in self._offered:
                groups.remove(name)

    def _capacity(self, fact: NodeFact) -> ShapeCapacity:
        return self.usable if fact.usable else self.unusable


class NodeIndex:
    """The accounts by name, and the classes and groups they are in.

    Changes only mark accounts; `settle` seats them, once for all changes since the last decision.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, NodeAccount] = {}
        self.classes: dict[ClassKey, NodeClass] = {}
        self.totals = RunningTotals()
        self.reserved: dict[str, NodeAccount] = {}
        """Accounts of which a part is only reserved, in the order in which that began."""
        self.generation = 0
        """Changes with everything that decides which nodes a pod may use at all."""
        self.own_keys: frozenset[str] = frozenset()
        """Label keys that pods asked for and that have too many values to make classes of."""
        self._class_keys: tuple[str, ...] = ()
        self._classify_anew_at = 2 * MAX_VALUES_OF_A_CLASS_KEY
        self._joined: dict[str, tuple[NodeFact, NodeClass]] = {}
        """By name of the node what it stated when it joined its class, and that class."""
        self._changed: dict[str, NodeAccount] = {}

    def facts(self) -> Iterator[NodeFact]:
        """All known nodes."""
        return (account.fact for account in self.accounts.values() if account.fact is not None)

    def fact(self, name: str) -> NodeFact | None:
        """Return what a node offers; None where nothing is known of it but its pods, or nothing at all."""
        account = self.accounts.get(name)
        return account.fact if account is not None else None

    def set_fact(self, name: str, fact: NodeFact | None) -> None:
        """Take in what a node states now, None when it is gone."""
        account = self.accounts.get(name) or self._open(name)
        account.fact = fact
        self.generation += 1
        self._mark(account)

    def take(self, name: str, key: ClaimKey, claim: Claim) -> None:
        """Enter a claim on a node; the inverse of `give_back`."""
        account = self.accounts.get(name) or self._open(name)
        account.take(key, claim)
        if claim.is_reserved:
            self.reserved[name] = account
        self._changed[name] = account

    def give_back(self, name: str, key: ClaimKey) -> None:
        """Strike a claim on a node out; the inverse of `take`."""
        account = self.accounts[name]
        account.give_back(key)
        if not account.reserved:
            self.reserved.pop(name, None)
        self._mark(account)

    def add_stale(self, name: str, claim: Claim) -> None:
        """Note a reservation on a node that takes no room any more; the inverse of `remove_stale`."""
        account = self.accounts.get(name) or self._open(name)
        account.add_stale(claim)
        self._changed[name] = account

    def remove_stale(self, name: str, claim: Claim) -> None:
        """Forget such a reservation; the inverse of `add_stale`."""
        account = self.accounts[name]
        account.add_stale(claim, -1)
        self._mark(account)

    def flush(self) -> None:
        """Seat every account that has changed."""
        if not self._changed:
            return
        for account in self._changed.values():
            self._seat(account)
        self.totals.note(self._changed)
        self._changed.clear()
        if len(self.classes) > self._classify_anew_at:
            self._classify(self._class_keys)

    def tell_apart_by(self, keys: frozenset[str]) -> None:
        """Make classes by these label keys too, as far as nodes have them at all."""
        new = keys.difference(self._class_keys, self.own_keys)
        present = [key for key in sorted(new) if any(key in fact.labels for fact in self.facts())]
        if present:
            self._split_by(present)

    def _split_by(self, keys: list[str]) -> None:
        """Part the nodes of each class that differ in these labels; only a minority moves."""
        own = {key for key in keys if self._values(key) > MAX_VALUES_OF_A_CLASS_KEY}
        self.own_keys |= own
        self.generation += 1
        keys = [key for key in keys if key not in own]
        if not keys:
            return
        self._class_keys = (*self._class_keys, *keys)
        classes = list(self.classes.values())
        self.classes.clear()
        for node_class in classes:
            self._split(node_class, keys)

    def _split(self, node_class: NodeClass, keys: list[str]) -> None:
        parts: dict[tuple[str | None, ...], list[NodeAccount]] = {}
        for name, account in node_class.members.items():
            labels = self._joined[name][0].labels
            parts.setdefault(tuple([labels.get(key) for key in keys]), []).append(account)
        values, most = max(parts.items(), key=lambda part: len(part[1]))
        shape, taints, before = node_class.key
        node_class.rename((shape, taints, (*before, *values)), self._joined[most[0].name][0])
        self.classes[node_class.key] = node_class
        for accounts in parts.values():
            for account in accounts if accounts is not most else ():
                fact, _ = self._joined.pop(account.name)
                node_class.remove(account.name, fact)
                part = self._join_class(account, fact)
                part.set_price(node_class.price)
                part.seat(account, fact)

    def _classify(self, keys: tuple[str, ...]) -> None:
        own = {key for key in keys if self._values(key) > MAX_VALUES_OF_A_CLASS_KEY}
        self.own_keys |= own
        self._class_keys = tuple(key for key in keys if key not in own)
        self.classes.clear()
        self._joined.clear()
        for account in self.accounts.values():
            self._seat(account)
        self._classify_anew_at = 2 * max(MAX_VALUES_OF_A_CLASS_KEY, len(self.classes))
        self.generation += 1

    def _values(self, key: str) -> int:
        return len({fact.labels.get(key) for fact in self.facts()})

    def _open(self, name: str) -> NodeAccount:
        account = self.accounts[name] = NodeAccount(name)
        return account

    def _mark(self, account: NodeAccount) -> None:
        if account.claims or account.stale or account.fact is not None:
            self._changed[account.name] = account
            return
        if account.name in self._joined:
            self._leave_class(account.name)
        self._changed.pop(account.name, None)
        self.totals.forget(account.name)
        del self.accounts[account.name]

    def _seat(self, account: NodeAccount) -> None:
        fact, joined = account.fact, self._joined.get(account.name)
        if joined is not None and joined[0] is not fact:
            self._leave_class(account.name)
            joined = None
        if fact is not None:
            node_class = joined[1] if joined is not None else self._join_class(account, fact)
            node_class.seat(account, fact)

    def _join_class(self, account: NodeAccount, fact: NodeFact) -> NodeClass:
        """Enter a node into its class; the inverse of `_leave_class`."""
        key = (_shape(fact), fact.taints, tuple(fact.labels.get(key) for key in self._class_keys))
        if key not in self.classes:
            self.classes[key] = NodeClass(key, fact)
        node_class = self.classes[key]
        node_class.add(account, fact)
        self._joined[account.name] = fact, node_class
        return node_class

    def _leave_class(self, name: str) -> None:
        fact, node_class = self._joined.pop(name)
        node_class.remove(name, fact)
        if not node_class.members:
            del self.classes[node_class.key]


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


def _shape(fact: NodeFact) -> _Shape:
    indices = tuple(index for index, _ in fact.gpus)
    return (
        indices,
        tuple([mode.gpu_count(fact) for mode in MODES.values()]),
        tuple([stock for mode in MODES.values() if mode.gives_instances for stock in mode.stocks(fact)]),
        fact.gpu_mib,
        cpu_steps(fact.cpu_milli),
        fact.agent,
    )


def cpu_steps(cpu_milli: int) -> int:
    """About how much CPU, in whole steps."""
    return min(cpu_milli // _CPU_STEP, _MAX_CPU_STEPS)
