"""Who may look at the same time: so many viewers, and a fair share for each namespace. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MAX_VIEWERS = 16
MAX_OF_NAMESPACES = 12
"""Viewers that are bound to one namespace, of all namespaces together: the rest is for those that see all."""
MAX_OF_ONE_NAMESPACE = 8
"""Of these, viewers of the same namespace."""


class NoPlaceError(Exception):
    """There are enough viewers; the text says of what kind."""


@dataclass(eq=False, slots=True)
class Place:
    """The place of one viewer."""

    namespace: str | None
    """The namespace that the viewer is bound to; None for one that sees all."""
    is_lost: bool = False
    """A viewer of another namespace has it now."""


class Places:
    """The places that are taken."""

    def __init__(self) -> None:
        self._taken: list[Place] = []
        """The newest last."""

    @property
    def are_empty(self) -> bool:
        """Whether nobody looks."""
        return not self._taken

    def take(self, namespace: str | None) -> Place:
        """Give one more viewer a place, which may be that of a viewer whose namespace has more.

        Args:
            namespace: The one that the viewer is bound to; None for one that sees all.

        Raises:
            NoPlaceError: there is none for it.
        """
        if namespace is not None:
            self._make_room(namespace)
        elif len(self._taken) >= MAX_VIEWERS:
            raise NoPlaceError(f"{MAX_VIEWERS} viewers are here already")
        place = Place(namespace)
        self._taken.append(place)
        return place

    def give_back(self, place: Place) -> None:
        """Free a place, unless it is another's by now; the inverse of `take`."""
        if not place.is_lost:
            self._taken.remove(place)

    def _make_room(self, namespace: str) -> None:
        bound = Counter(place.namespace for place in self._taken if place.namespace is not None)
        if bound[namespace] >= MAX_OF_ONE_NAMESPACE:
            raise NoPlaceError(f"{MAX_OF_ONE_NAMESPACE} viewers of this namespace are here already")
        if bound.total() < MAX_OF_NAMESPACES and len(self._taken) < MAX_VIEWERS:
            return
        most, count = max(bound.items(), key=lambda item: item[1], default=(namespace, 0))
        # Only where that makes shares more even: else two would take a place from each other for ever.
        if count <= bound[namespace] + 1:
            raise NoPlaceError(f"{len(self._taken)} viewers are here already")
        lost = next(place for place in reversed(self._taken) if place.namespace == most)
        lost.is_lost = True
        self._taken.remove(lost)
