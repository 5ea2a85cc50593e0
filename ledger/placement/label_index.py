"""Finds nodes by labels, as integers with one bit per node: the cost depends on the demands, not on nodes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import or_
from typing import Literal

from kube.matching import bound_of, integer
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from modes.facts import NodeFact

NodeSet = int
"""One bit per node, by its number."""
_FIELD, _NAME = "metadata.name", "/name"
"""The field of a node's name, and the key under which names are indexed: no label has it."""

_BLOCK = 128
_Ladder = tuple[list[int], list[int], list[NodeSet]]
"""Numbers in rising order, the nodes with each, and those with one of the first 0, _BLOCK, 2 * _BLOCK ..."""


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
        self._ladders: dict[str, _Ladder] = {}
        """By label that a pod compared as a number, until a node changes."""

    def add(self, node: NodeFact) -> NodeSet:
        """Add a node, and return it as a set; the inverse of `remove`."""
        self._ladders.clear()
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
        self._ladders.clear()
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

    def matching(self, constraints: Constraints) -> NodeSet:
        """Return the nodes that nodeName, nodeSelector and required node affinity accept."""
        name = constraints.node_name
        nodes = self.nodes if name is None else self._having(_NAME, (name,))
        for key, value in constraints.node_selector.items():
            nodes &= self._having(key, (value,))
        if constraints.required_terms is None:
            return nodes
        return nodes & _union(map(self._matching_term, constraints.required_terms))

    def _matching_term(self, term: NodeSelectorTerm) -> NodeSet:
        nodes = 0 if term.is_empty else self.nodes
        for asked in term.match_expressions or ():
            nodes &= self._holding(asked.key, asked)
        for asked in term.match_fields or ():
            nodes &= self._holding(_NAME, asked) if asked.key == _FIELD else 0
        return nodes

    def _holding(self, key: str, asked: Requirement) -> NodeSet:
        listed = asked.values or ()
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
                return self._beyond(key, operator, bound)
            case _:
                return 0

    def _beyond(self, key: str, operator: Literal["Gt", "Lt"], bound: int) -> NodeSet:
        if key not in self._values:
            return 0  # users can write any number of keys, and a ladder is kept until a node changes
        numbers, kept, up_to = self._ladder(key)
        count = bisect_left(numbers, bound) if operator == "Lt" else bisect_right(numbers, bound)
        block = count // _BLOCK
        first = up_to[block] | _union(kept[block * _BLOCK : count])
        return first if operator == "Lt" else up_to[-1] & ~first

    def _ladder(self, key: str) -> _Ladder:
        """Return a label's values as numbers, so that any number of bounds costs one pass over them."""
        found = self._ladders.get(key)
        if found is None:
            known = [(integer(value), kept) for value, kept in self._values.get(key, {}).items()]
            rising = sorted([(number, kept) for number, kept in known if number is not None])
            kept = [kept for _, kept in rising]
            blocks = [_union(kept[at : at + _BLOCK]) for at in range(0, len(kept), _BLOCK)]
            up_to = [*accumulate(blocks, or_, initial=0)]
            found = self._ladders[key] = [number for number, _ in rising], kept, up_to
        return found

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
