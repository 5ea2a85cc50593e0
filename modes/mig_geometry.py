"""The sets of instances that a card can hold at once: every valid combination of MIG profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from modes.mig_profiles import MigCard, MigProfile

Geometry = tuple[str, ...]
"""Profile names of a card's instances, sorted; one name for each instance.

The driver chooses where each instance is on the card; mig-parted tries orders until all have a place.
"""
Placement = tuple[int, str]
"""The first memory slice of an instance, and its profile."""

MAX_ARRANGEMENTS = 4096
"""No known card has more than 2,319."""


def geometry(names: Iterable[str]) -> Geometry:
    """Return the geometry with these instances."""
    return tuple(sorted(names))


def arrangements(card: MigCard) -> Iterator[tuple[Placement, ...]]:
    """Yield all sets of instances that the card can hold at once, with their places; first the empty set.

    Agents report cards, so these are bounded.
    """
    yield from islice(_arranged(card, 0, ()), MAX_ARRANGEMENTS)


@lru_cache(maxsize=64)
def geometries(card: MigCard) -> frozenset[Geometry]:
    """Return all geometries that the card can have, including the empty one."""
    return frozenset(geometry(name for _, name in placed) for placed in arrangements(card))


@lru_cache(maxsize=64)
def full_geometries(card: MigCard) -> tuple[Geometry, ...]:
    """Return the geometries to which no instance can be added, in a fixed order."""
    known = geometries(card)
    names = [profile.name for profile in card.profiles]
    return tuple(
        sorted(each for each in known if not any(geometry((*each, name)) in known for name in names))
    )


def _arranged(card: MigCard, start: int, placed: tuple[Placement, ...]) -> Iterator[tuple[Placement, ...]]:
    if start >= card.memory:
        yield placed
        return
    yield from _arranged(card, start + 1, placed)
    for profile in card.profiles:
        if start in profile.starts and _may_join(card, profile, placed):
            yield from _arranged(card, start + profile.memory, (*placed, (start, profile.name)))


def _may_join(card: MigCard, profile: MigProfile, placed: tuple[Placement, ...]) -> bool:
    """Whether compute slices, instances and media engines are left for one more of this profile."""
    there = [known for _, name in placed if (known := card.profile(name)) is not None]
    return (
        sum(each.compute for each in there) + profile.compute <= card.compute
        and there.count(profile) < profile.most
        and not (profile.has_media_extensions and any(each.has_media_extensions for each in there))
    )
