"""Room in a pool of slices that has one name: each container needs its slices on one card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def left_on_cards(
    held: Sequence[int], slices_per_card: int, taken: int, latest: Iterable[int]
) -> tuple[int, ...] | None:
    """Return the free slices of each card, sorted; None if they are unknown.

    Slices that pods took after the agent's report are counted as the agent will place them: on the card with
    the least sufficient room. The result is None if slices were freed since the report, on an unknown card.

    Args:
        held: slices that containers hold on each card, by the kubelet's checkpoint.
        slices_per_card: slices into which each card is divided.
        taken: slices of all pods that are bound to the node or expected on it.
        latest: slices of each of these pods, the latest first.
    """
    since = taken - sum(held)
    if since < 0:
        return None
    new: list[int] = []
    for slices in latest:
        if since <= 0:
            break
        new.append(min(slices, since))
        since -= slices
    left = [max(0, slices_per_card - each) for each in held]
    for slices in reversed(new):
        _give(left, slices)
    return tuple(sorted(left))


def _give(left: list[int], slices: int) -> None:
    """Take slices from the card with the least sufficient room, else from the freest cards."""
    if take_from_one(left, slices):
        return
    for at in sorted(range(len(left)), key=lambda at: -left[at]):
        given = min(left[at], slices)
        left[at] -= given
        slices -= given
