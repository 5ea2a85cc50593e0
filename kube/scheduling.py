"""A pod's requirements of a node, with the field names of the Kubernetes API."""

from __future__ import annotations

import msgspec


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One `matchExpressions` or `matchFields` entry."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Requirements that must all hold; a term with none of either kind matches nothing."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the term has neither an expression nor a field."""
        return not self.match_expressions and not self.match_fields


def with_requirement(
    terms: tuple[NodeSelectorTerm, ...] | None, wanted: Requirement
) -> tuple[NodeSelectorTerm, ...]:
    """Return terms of a required node affinity (None: there is none) with one more requirement in each."""
    if terms is None:
        return (NodeSelectorTerm((wanted,)),)
    return tuple(
        each
        if each.is_empty
        else NodeSelectorTerm((*(each.match_expressions or ()), wanted), each.match_fields)
        for each in terms
    )


class NodeSelector(msgspec.Struct, rename="camel", gc=False):
    """Terms of a required node affinity, one of which must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """A pod's toleration. A missing operator means Equal, a missing effect means every effect."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A node's taint."""

    key: str
    effect: str
    value: str | None = None


_BYTES_OF_A_MEMBER = 64
"""Approximate overhead of a text or an object, besides its characters."""


class Constraints(msgspec.Struct, frozen=True):
    """All constraints on the node that a pod has before it is placed."""

    node_selector: dict[str, str] = {}
    required_terms: tuple[NodeSelectorTerm, ...] | None = None
    """Terms of the required node affinity, one of which must match; None when there is none."""
    tolerations: tuple[Toleration, ...] = ()
    node_name: str | None = None

    def size(self) -> int:
        """Approximate bytes that keeping this takes; the pod's author chooses its texts."""
        size = _texts(*self.node_selector, *self.node_selector.values(), self.node_name)
        for term in self.required_terms or ():
            size += _BYTES_OF_A_MEMBER
            for asked in (*(term.match_expressions or ()), *(term.match_fields or ())):
                size += _texts(asked.key, asked.operator, *(asked.values or ()))
        for one in self.tolerations:
            size += _texts(one.key, one.operator, one.value, one.effect)
        return size


def without_label(constraints: Constraints, label: str) -> Constraints:
    """Return the constraints without required node affinity on a label; the same object if there is none."""
    terms = constraints.required_terms or ()
    if not any(each.key == label for term in terms for each in term.match_expressions or ()):
        return constraints
    kept = tuple([_without(term, label) for term in terms])
    # Every node satisfies a term without other requirements, and one such term is enough.
    is_free = any(after.is_empty and not before.is_empty for before, after in zip(terms, kept, strict=True))
    return msgspec.structs.replace(constraints, required_terms=None if is_free else kept)


def _without(term: NodeSelectorTerm, label: str) -> NodeSelectorTerm:
    left = tuple([each for each in term.match_expressions or () if each.key != label])
    return NodeSelectorTerm(left, term.match_fields)


def _texts(*texts: str | None) -> int:
    """Approximate bytes of the texts; a character takes up to four."""
    return sum([4 * len(text) + _BYTES_OF_A_MEMBER for text in texts if text is not None])
