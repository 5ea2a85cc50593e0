"""All node accounts, in classes of nodes that are alike for pods (node_class.py), and all labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ledger.accounts import Claim, ClaimKey, NodeAccount
from ledger.placement.expected_pods import unlearnt_prices
from ledger.placement.label_index import LabelIndex, NodeSet
from ledger.placement.node_class import NodeClass, PriceKey, class_key, price_key
from ledger.placement.prices import Prices
from ledger.totals import RunningSums, Totals, totals_of
from modes.facts import NodeFact

_USUAL_SLICES = 8
"""Slices of a GPU whose node states none: no prices are needed there."""


class NodeIndex:
    """The accounts by name, and their classes and groups.

    Changes only mark accounts. `flush` inserts them into their groups, once for all changes since the last
    decision.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, NodeAccount] = {}
        self.classes: dict[Hashable, NodeClass] = {}
        self.labels = LabelIndex()
        self._sums = RunningSums(self._count)
        self.generation = 0
        """Increases with every change that affects which nodes a pod may use."""
        self._prices: dict[PriceKey, Prices] = {}
        self._joined: dict[str, tuple[NodeFact, NodeClass]] = {}
        """By name of the node: its facts when it joined its class, and that class."""
        self._changed: dict[str, NodeAccount] = {}

    def fact(self, name: str) -> NodeFact | None:
        """Return the facts of a node; None if it is unknown, even if it has pods."""
        account = self.accounts.get(name)
        return account.fact if account is not None else None

    def set_fact(self, name: str, fact: NodeFact | None) -> None:
        """Set the facts of a node; None removes it."""
        account = self._open(name)
        account.fact = fact
        self.generation += 1
        self._mark(account)

    def take(self, name: str, key: ClaimKey, claim: Claim) -> None:
        """Add a claim to a node; the inverse of `give_back`."""
        account = self._open(name)
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
        self._sums.note(self._changed)
        self._changed.clear()

    def totals(self) -> Totals:
        """Return the sums over all nodes, in time that grows with the nodes that have changed since."""
        self.flush()
        return Totals(*self._sums.sums().get("", ()))

    def _count(self, name: str) -> dict[str, Totals]:
        account = self.accounts.get(name)
        return {"": totals_of(account)} if account is not None else {}

    def named(self, nodes: NodeSet) -> Iterator[NodeAccount]:
        """Yield the accounts of a small set."""
        return (self.accounts[name] for name in self.labels.named(nodes))

    def class_of(self, name: str) -> NodeClass | None:
        """Return the class of a node; None if the node is unknown."""
        joined = self._joined.get(name)
        return joined[1] if joined is not None else None

    def set_prices(self, prices: dict[PriceKey, Prices]) -> None:
        """Set what free slices are worth on nodes with these keys, and drop other prices of such GPUs."""
        self._prices |= prices
        known = {each.price_key for each in self.classes.values()}
        self._prices = {key: each for key, each in self._prices.items() if key in known}
        for node_class in self.classes.values():
            found = prices.get(node_class.price_key)
            if found is not None:
                node_class.set_prices(found)

    def _open(self, name: str) -> NodeAccount:
        account = self.accounts.get(name)
        if account is None:
            account = self.accounts[name] = NodeAccount(name)
        return account

    def _mark(self, account: NodeAccount) -> None:
        if account.claims or account.fact is not None:
            self._changed[account.name] = account
            return
        self._leave_class(account)
        self._changed.pop(account.name, None)
        self._sums.note((account.name,))
        del self.accounts[account.name]

    def _insert(self, account: NodeAccount) -> None:
        fact, joined = account.fact, self._joined.get(account.name)
        if joined is not None and joined[0] is not fact:
            self._leave_class(account)
            joined = None
        if fact is None:
            return
        node_class = joined[1] if joined is not None else self._join_class(account, fact)
        if fact.usable:
            node_class.insert(account)

    def _join_class(self, account: NodeAccount, fact: NodeFact) -> NodeClass:
        """Add a node to its class; the inverse of `_leave_class`."""
        key = class_key(fact)
        node_class = self.classes.get(key)
        if node_class is None:
            prices = self._prices.get(price_key(fact)) or unlearnt_prices(
                fact.slices_per_gpu or _USUAL_SLICES
            )
            node_class = self.classes[key] = NodeClass(fact, prices)
        node_class.nodes |= self.labels.add(fact)
        self._joined[account.name] = fact, node_class
        return node_class

    def _leave_class(self, account: NodeAccount) -> None:
        if account.name not in self._joined:
            return
        fact, node_class = self._joined.pop(account.name)
        node_class.nodes &= ~(1 << self.labels.numbers[account.name])
        self.labels.remove(fact)
        node_class.remove(account.name)
        if not node_class.nodes:
            del self.classes[class_key(fact)]
