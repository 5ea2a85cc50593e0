"""Finds nodes by labels, as sets. The cost of a search depends only on the length of the demands.

A set of nodes is an integer with one bit per node. To intersect two sets of 10,000 nodes takes less than a
tenth of a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kube.matching import bound_of, integer
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.placement_request import Unschedulable
from modes.facts import NodeFact

NodeSet = int
"""One bit per node, by its number."""
_FIELD, _NAME = "metadata.name", "/name"
"""The field of a node's name, and the key under which names are indexed: no label has it."""
LEAST_WORK = 20_000
"""Comparisons that any decision may make: 100 terms with 1,000 values use less than a tenth of them."""
WORK_PER_NODE = 2
"""Further comparisons for each node of the cluster."""
_OF_A_NUMBER = 3
"""Comparisons for which reading a number and comparing it counts."""


class TooMuchWorkError(Exception):
    """A decision would take more comparisons than it may use."""


class Work:
    """Counts comparisons of one pod's demands with nodes before they are made: users can write long ones."""

    def __init__(self, nodes: int) -> None:
        """`nodes` is the number of known nodes; names that only pods state are not known nodes."""
        self.most = LEAST_WORK + WORK_PER_NODE * nodes
        self.spent = 0

    def spend(self, comparisons: int) -> None:
        """Count comparisons.

        Raises:
            TooMuchWorkError: they are more than are left.
        """
        self.spent += comparisons
        if self.spent > self.most:
            raise TooMuchWorkError

    def refusal(self) -> Unschedulable:
        """Return the refusal, which tells the pod's author what to reduce."""
        return Unschedulable(
            f"its demands on nodes take more than {self.most} comparisons with the cluster's nodes:"
            " use fewer terms, expressions and tolerations",
            is_too_much=True,
        )


class LabelIndex:
    """All labels and names of nodes."""

    def __init__(self) -> None:
        self.nodes: NodeSet = 0
        """All nodes."""
        self.numbers: dict[str, int] = {}
        """Number of each node, by its name."""
        self._names: list[str] = []
        self._free: list[int] = []
        self._values: dict[str, dict[str, int]] = {}
        """Nodes by label and value. For a single node only its inverted number: one bit far up takes a
        kilobyte."""
        self._having_key: dict[str, NodeSet] = {}

    def add(self, node: NodeFact) -> NodeSet:
        """Add a node, and return it as a set; the inverse of `remove`."""
        number = self._free.pop() if self._free else len(self._names)
        self._names[number : number + 1] = [node.name]
        self.numbers[node.name] = number
        self.nodes |= 1 << number
        for key, value in (*node.labels.items(), (_NAME, node.name)):
            self._having_key[key] = self._having_key.get(key, 0) | 1 << number
            values = self._values.setdefault(key, {})
            kept = values.get(value)
            values[value] = ~number if kept is None else _set(kept) | 1 << number
        return 1 << number

    def remove(self, node: NodeFact) -> None:
        """Remove a node; `node` has the same labels as in `add`."""
        number = self.numbers.pop(node.name)
        self._free.append(number)
        self.nodes &= ~(1 << number)
        for key, value in (*node.labels.items(), (_NAME, node.name)):
            self._having_key[key] &= ~(1 << number)
            values = self._values[key]
            left = _set(values.pop(value)) & ~(1 << number)
            if left:
                values[value] = left
            if not values:
                del self._values[key], self._having_key[key]

    def named(self, nodes: NodeSet) -> Iterator[str]:
        """Yield the names of a small set."""
        while nodes:
            lowest = nodes & -nodes
            yield self._names[lowest.bit_length() - 1]
            nodes ^= lowest

    def matching(self, constraints: Constraints, work: Work) -> NodeSet:
        """Return the nodes that nodeName, nodeSelector and required node affinity accept.

        Raises:
            TooMuchWorkError: it takes more comparisons than are left.
        """
        work.spend(len(constraints.node_selector))
        name = constraints.node_name
        nodes = self.nodes if name is None else self._having(_NAME, (name,))
        for key, value in constraints.node_selector.items():
            nodes &= self._having(key, (value,))
        if constraints.required_terms is None:
            return nodes
        return nodes & _union([self._matching_term(term, work) for term in constraints.required_terms])

    def _matching_term(self, term: NodeSelectorTerm, work: Work) -> NodeSet:
        work.spend(1)
        nodes = 0 if term.is_empty else self.nodes
        for asked in term.match_expressions or ():
            nodes &= self._holding(asked.key, asked, work)
        for asked in term.match_fields or ():
            nodes &= self._holding(_NAME, asked, work) if asked.key == _FIELD else 0
        return nodes

    def _holding(self, key: str, asked: Requirement, work: Work) -> NodeSet:
        listed, values = asked.values or (), self._values.get(key, {})
        work.spend(1 + (_OF_A_NUMBER * len(values) if asked.operator in {"Gt", "Lt"} else len(listed)))
        match asked.operator:
            case "In":
                return self._having(key, listed)
            case "NotIn":
                return self.nodes & ~self._having(key, listed)
            case "Exists":
                return self._having_key.get(key, 0)
            case "DoesNotExist":
                return self.nodes & ~self._having_key.get(key, 0)
            case "Gt" | "Lt" as operator if (bound := bound_of(listed)) is not None:
                sign = 1 if operator == "Gt" else -1
                numbers = [(integer(value), kept) for value, kept in values.items()]
                return _union([kept for at, kept in numbers if at is not None and sign * (at - bound) > 0])
            case _:
                return 0

    def _having(self, key: str, listed: Iterable[str]) -> NodeSet:
        values = self._values.get(key, {})
        return _union([values[value] for value in listed if value in values])


def _set(kept: int) -> NodeSet:
    return kept if kept >= 0 else 1 << ~kept


def _union(kept: Iterable[int]) -> NodeSet:
    nodes = 0
    for each in kept:
        nodes |= _set(each)
    return nodes
