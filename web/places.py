"""Limits concurrent viewers, with a fair share for each namespace. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MAX_VIEWERS = 16
MAX_OF_NAMESPACES = 12
"""Viewers bound to one namespace, over all namespaces; the rest is for viewers of all namespaces."""
MAX_OF_ONE_NAMESPACE = 8
"""Of these, viewers of the same namespace."""


class NoPlaceError(Exception):
    """There are too many viewers; the text says of which kind."""


@dataclass(eq=False, slots=True)
class Place:
    """The right of one viewer to have a stream."""

    namespace: str | None
    """The namespace to which the viewer is bound; None for a viewer of all."""
    is_lost: bool = False
    """Whether a viewer of another namespace has taken it."""


class Places:
    """The streams that viewers have: limited in all, and shared fairly between namespaces."""

    def __init__(self) -> None:
        self._taken: list[Place] = []
        """The newest last."""

    @property
    def are_empty(self) -> bool:
        """Whether there are no viewers."""
        return not self._taken

    def take(self, namespace: str | None) -> Place:
        """Give a place to one more viewer, if necessary that of a viewer whose namespace has more.

        Args:
            namespace: The namespace to which the viewer is bound; None for a viewer of all.

        Raises:
            NoPlaceError: no place is available to it.
        """
        if namespace is not None:
            self._make_room(namespace)
        elif len(self._taken) >= MAX_VIEWERS:
            raise NoPlaceError(f"there are {MAX_VIEWERS} viewers already")
        place = Place(namespace)
        self._taken.append(place)
        return place

    def give_back(self, place: Place) -> None:
        """Free a place, unless another viewer has taken it; the inverse of `take`."""
        if not place.is_lost:
            self._taken.remove(place)

    def _make_room(self, namespace: str) -> None:
        bound = Counter(place.namespace for place in self._taken if place.namespace is not None)
        if bound[namespace] >= MAX_OF_ONE_NAMESPACE:
            raise NoPlaceError(f"there are {MAX_OF_ONE_NAMESPACE} viewers of this namespace already")
        if bound.total() < MAX_OF_NAMESPACES and len(self._taken) < MAX_VIEWERS:
            return
        most, count = max(bound.items(), key=lambda item: item[1], default=(namespace, 0))
        # Only if that makes the shares more even; otherwise two viewers would replace each other for ever.
        if count <= bound[namespace] + 1:
            raise NoPlaceError(f"there are {len(self._taken)} viewers already")
        lost = next(place for place in reversed(self._taken) if place.namespace == most)
        lost.is_lost = True
        self._taken.remove(lost)
