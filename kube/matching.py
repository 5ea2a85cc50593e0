"""Checks whether a node could ever hold a pod: selectors, affinity and taints.

The rules are those of Kubernetes' NodeAffinity and TaintToleration scheduler plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint, Toleration

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)
"""A label's value has at most 63 characters."""


def labels_match(constraints: Constraints, name: str, labels: Mapping[str, str]) -> bool:
    """Whether nodeSelector and required node affinity accept a node of this name with these labels."""
    if any(labels.get(key) != value for key, value in constraints.node_selector.items()):
        return False
    terms = constraints.required_terms
    return terms is None or any(_term_matches(term, name, labels) for term in terms)


def tolerates(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> bool:
    """Whether no taint keeps the pod off; PreferNoSchedule never does."""
    return TolerationIndex(tolerations).tolerates(taints)


class TolerationIndex:
    """Index of a pod's tolerations: a taint takes the same time however many tolerations there are."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._every_key: set[str] = set()
        self._keys: set[tuple[str, str]] = set()
        self._values: set[tuple[str, str, str]] = set()
        for one in tolerations:
            key, effect = one.key or "", one.effect or ""
            if one.operator != "Exists":
                self._values.add((key, one.value or "", effect))
            elif key:
                self._keys.add((key, effect))
            else:
                self._every_key.add(effect)

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether no taint keeps the pod off."""
        return all(taint.effect == "PreferNoSchedule" or self._tolerates(taint) for taint in taints)

    def _tolerates(self, taint: Taint) -> bool:
        key, value = taint.key, taint.value or ""
        return any(
            effect in self._every_key
            or (key, effect) in self._keys
            or (bool(key) and (key, value, effect) in self._values)
            for effect in ("", taint.effect)
        )


def _term_matches(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if term.is_empty:
        return False
    return all(
        _holds(requirement, labels.get(requirement.key)) for requirement in term.match_expressions or ()
    ) and all(
        requirement.key == "metadata.name" and _holds(requirement, name)
        for requirement in term.match_fields or ()
    )


def _holds(requirement: Requirement, value: str | None) -> bool:  # noqa: PLR0911 - one return for each operator
    values = requirement.values or ()
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, values) > 0
        case "Lt":
            return _compared(value, values) < 0
        case _:
            return False


def _compared(value: str | None, values: Sequence[str]) -> int:
    """Sign of label minus bound; 0, for which neither operator holds, unless both are integers."""
    label, bound = integer(value), bound_of(values)
    if label is None or bound is None:
        return 0
    return (label > bound) - (label < bound)


def bound_of(values: Sequence[str]) -> int | None:
    """Return the number that `Gt` and `Lt` compare with; None if they never hold."""
    return integer(values[0]) if len(values) == 1 else None


def integer(text: str | None) -> int | None:
    """Return a signed 64-bit decimal as Go's ParseInt reads it; None for any other text."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
