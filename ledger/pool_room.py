"""Room in a pool of slices that has one name: each container needs its slices on one card."""

from __future__ import annotations

from collections.abc import Sequence

from modes.fraction import Fraction


def has_room(free: Sequence[int], fraction: Fraction) -> bool:
    """Whether each container finds its slices on one card, if the agent assigns them one after the other.

    Args:
        free: free slices of each card, or their sum if the cards are unknown.
        fraction: the pod's fraction.
    """
    if len(free) == 1:
        return free[0] >= fraction.slices
    left = list(free)
    return all(take_from_one(left, slices) for slices in fraction.pieces)


def take_from_one(left: list[int], slices: int) -> bool:
    """Take slices from the card with the least sufficient room; return False if no card has enough."""
    fitting = [each for each in left if each >= slices]
    if fitting:
        left[left.index(min(fitting))] -= slices
    return bool(fitting)
