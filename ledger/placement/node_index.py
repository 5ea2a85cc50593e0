"""All node accounts, in classes of nodes that are alike for most pods.

Nodes of a class have the same GPUs, about the same CPU, the same state of the node agent, the same taints,
and the same values of the few labels that pods name most (class_keys.py). For a pod that names other labels,
label_index.py says which nodes of a class match.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ledger.accounts import Claim, ClaimKey, NodeAccount
from ledger.placement.class_keys import ClassKeys
from ledger.placement.label_index import LabelIndex, LabelValues, NodeSet, numbers_in
from ledger.placement.node_class import ClassKey, ClassLabels, NodeClass, shape_of
from ledger.placement.shadow_prices import ShadowPrices
from ledger.totals import RunningTotals
from modes.facts import NodeFact

MAX_VALUES_OF_A_CLASS_KEY = 64
MAX_LABEL_CLASSES = 128
"""Classes that labels may add to those by shape and taints; every search visits all classes."""
MAX_CLASSES_TO_SPLIT = 512
"""If shapes and taints make more classes than this, labels add none."""
MOVES_AT_ONCE = 256
"""Nodes that one decision moves to another class, after the labels of classes changed."""
_Parts = list[tuple[str | None, NodeSet]]


class NodeIndex:
    """The accounts by name, and their classes and groups.

    Changes only mark accounts. `flush` inserts them into their groups, once for all changes since the last
    decision.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, NodeAccount] = {}
        self.classes: dict[ClassKey, NodeClass] = {}
        self.labels = LabelIndex()
        self.totals = RunningTotals()
        self.generation = 0
        """Increases with every change that affects which nodes a pod may use."""
        self.numbers: dict[str, int] = {}
        """Number of each account, for sets of nodes."""
        self._names: list[str] = []
        """Names by number; a free number keeps its last name."""
        self._free_numbers: list[int] = []
        self._keys = ClassKeys()
        self._misplaced: NodeSet = 0
        """Nodes that still have to move, because the labels of classes changed."""
        self._most_classes = MAX_LABEL_CLASSES
        self._moves_left = 0
        self._joined: dict[str, tuple[NodeFact, NodeClass]] = {}
        """By name of the node: its facts when it joined its class, and that class."""
        self._changed: dict[str, NodeAccount] = {}

    def facts(self) -> Iterator[NodeFact]:
        """The facts of all known nodes."""
        return (account.fact for account in self.accounts.values() if account.fact is not None)

    def fact(self, name: str) -> NodeFact | None:
        """Return the facts of a node; None if it is unknown, even if it has pods."""
        account = self.accounts.get(name)
        return account.fact if account is not None else None

    def set_fact(self, name: str, fact: NodeFact | None) -> None:
        """Set the facts of a node; None removes it."""
        account = self.accounts.get(name) or self._open(name)
        known = account.fact
        if known is None or fact is None or known.labels != fact.labels:
            self._set_labels(self.numbers[name], known, fact)
        account.fact = fact
        self.generation += 1
        self._mark(account)

    def take(self, name: str, key: ClaimKey, claim: Claim) -> None:
        """Add a claim to a node; the inverse of `give_back`."""
        account = self.accounts.get(name) or self._open(name)
        account.take(key, claim)
        self._changed[name] = account

    def give_back(self, name: str, key: ClaimKey) -> None:
        """Remove a claim from a node; the inverse of `take`."""
        account = self.accounts[name]
        account.give_back(key)
        self._mark(account)

    def flush(self) -> None:
        """Insert every changed account into its groups."""
        if not self._changed:
            return
        for account in self._changed.values():
            self._insert(account)
        self.totals.note(self._changed)
        self._changed.clear()

    def begin(self) -> None:
        """Begin a decision, and move some nodes to their new classes."""
        self._moves_left = MOVES_AT_ONCE
        if self._misplaced:
            self._move()
        elif len(self.classes) > self._most_classes:
            self._bound_classes()

    def learn(self, named: Collection[str]) -> None:
        """Count the labels that a placed pod names; the most frequent ones divide classes."""
        if not named and not self._keys.is_window_over:
            self._keys.pods += 1
            return
        present = [key for key in named if key in self.labels]
        self._keys.note(present)
        if not self._misplaced and self._keys.is_window_over and self._keys.forget():
            self._merge()
        for key in self._keys.wanted(present):
            if self._misplaced or not self._moves_left or not self._split_by(key):
                break
            self._move()

    def named(self, nodes: NodeSet) -> Iterator[NodeAccount]:
        """Yield the accounts of a small set."""
        return (self.accounts[self._names[number]] for number in numbers_in(nodes))

    def _set_labels(self, number: int, known: NodeFact | None, fact: NodeFact | None) -> None:
        if known is not None:
            self.labels.remove(number, known)
        if fact is not None:
            self.labels.add(number, fact)

    def _split_by(self, key: str) -> bool:
        """Divide classes by one more label, unless that makes too many. The largest part keeps its class."""
        values = self.labels.values(key)
        if len(values) > MAX_VALUES_OF_A_CLASS_KEY or len(self.classes) > MAX_CLASSES_TO_SPLIT:
            self._keys.refuse(key)
            return True
        split = self._split(values)
        if split is None:
            self._keys.refuse(key)
            return False
        self._keys.add(key)
        self.classes.clear()
        self.generation += 1
        for node_class, parts in split:
            value, most = max(parts, key=lambda part: part[1].bit_count())
            shape, taints, labels = node_class.key
            self._rename(node_class, (shape, taints, (*labels, (key, value))), most)
            self._misplaced |= node_class.nodes ^ most
        return True

    def _split(self, values: LabelValues) -> list[tuple[NodeClass, _Parts]] | None:
        """Divide each class by the values of a label; None if that makes too many classes."""
        left, split = self._shapes() + MAX_LABEL_CLASSES, []
        for node_class in self.classes.values():
            parts = _parts(node_class.nodes, values.sets())
            left -= len(parts)
            if left < 0:
                return None
            split.append((node_class, parts))
        return split

    def _merge(self) -> None:
        """Merge classes that differ only in labels that are no longer keys; the largest one stays."""
        keys = self._keys.keys
        classes = sorted(self.classes.values(), key=lambda each: (-len(each.members), each.order))
        self.generation += 1
        for node_class in classes:
            shape, taints, labels = node_class.key
            key = shape, taints, tuple([label for label in labels if label[0] in keys])
            if key in self.classes:
                self._misplaced |= node_class.nodes if key != node_class.key else 0
                continue
            del self.classes[node_class.key]
            self._rename(node_class, key, node_class.nodes)

    def _rename(self, node_class: NodeClass, key: ClassKey, nodes: NodeSet) -> None:
        sample = next(self.named(nodes))
        node_class.rename(key, self._joined[sample.name][0])
        self.classes[key] = node_class

    def _move(self) -> None:
        """Move some nodes to their new classes."""
        self.generation += 1
        while self._misplaced and self._moves_left:
            self._moves_left -= 1
            (account,) = self.named(self._misplaced & -self._misplaced)
            fact, former = self._leave_class(account.name)
            shape, taints, _ = former.key
            part = self._join(account, fact, (shape, taints, self._labels_of(fact)), former.worth)
            part.insert(account, fact)

    def _bound_classes(self) -> None:
        """If labels make too many classes by now, drop the label with the most values."""
        shapes = self._shapes()
        self._most_classes = shapes + MAX_LABEL_CLASSES
        if self._keys.keys and len(self.classes) > self._most_classes:
            self._keys.refuse(max(self._keys.keys, key=lambda key: len(self.labels.values(key))))
            self._merge()

    def _shapes(self) -> int:
        """Number of classes without labels."""
        return len({(shape, taints) for shape, taints, _ in self.classes})

    def _open(self, name: str) -> NodeAccount:
        account = self.accounts[name] = NodeAccount(name)
        if self._free_numbers:
            number = self._free_numbers.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            self._names.append(name)
        self.numbers[name] = number
        return account

    def _mark(self, account: NodeAccount) -> None:
        if account.claims or account.fact is not None:
            self._changed[account.name] = account
            return
        if account.name in self._joined:
            self._leave_class(account.name)
        self._changed.pop(account.name, None)
        self.totals.forget(account.name)
        del self.accounts[account.name]
        self._free_numbers.append(self.numbers.pop(account.name))

    def _insert(self, account: NodeAccount) -> None:
        fact, joined = account.fact, self._joined.get(account.name)
        if joined is not None and joined[0] is not fact:
            self._leave_class(account.name)
            joined = None
        if fact is not None:
            node_class = joined[1] if joined is not None else self._join_class(account, fact)
            node_class.insert(account, fact)

    def _join_class(self, account: NodeAccount, fact: NodeFact) -> NodeClass:
        """Add a node to its class; the inverse of `_leave_class`."""
        return self._join(account, fact, (shape_of(fact), fact.taints, self._labels_of(fact)), None)

    def _join(
        self, account: NodeAccount, fact: NodeFact, key: ClassKey, worth: ShadowPrices | None
    ) -> NodeClass:
        """Add a node to a class; in a new class, free slices are worth this."""
        node_class = self.classes.get(key)
        if node_class is None:
            node_class = self.classes[key] = NodeClass(key, fact)
            node_class.set_worth(worth)
        node_class.add(account, fact, self.numbers[account.name])
        self._joined[account.name] = fact, node_class
        return node_class

    def _labels_of(self, fact: NodeFact) -> ClassLabels:
        labels = fact.labels
        return tuple([(key, labels.get(key)) for key in self._keys.keys])

    def _leave_class(self, name: str) -> tuple[NodeFact, NodeClass]:
        fact, node_class = self._joined.pop(name)
        number = self.numbers[name]
        node_class.remove(name, fact, number)
        self._misplaced &= ~(1 << number)
        if not node_class.members:
            del self.classes[node_class.key]
        return fact, node_class


def _parts(nodes: NodeSet, values: Iterable[tuple[str, NodeSet]]) -> _Parts:
    """Divide nodes by the values of a label; nodes without it are the last part."""
    found: _Parts = []
    for value, having in values:
        part = nodes & having
        if part:
            found.append((value, part))
            nodes ^= part
    return [*found, (None, nodes)] if nodes else found
