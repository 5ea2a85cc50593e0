"""What is left on each card of a node whose GPUs share one resource name, as far as its agent tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from modes.pool_room import take_from_one


def left_on_cards(
    held: Sequence[int], slices_per_card: int, taken: int, latest: Iterable[int]
) -> tuple[int, ...] | None:
    """Return the slices left on each card, sorted; None where that cannot be told.

    What pods took since the agent looked is put where the agent puts it: on the card with the least room that
    is enough. Which card was freed since then nobody tells.

    Args:
        held: by card the slices that containers have by the kubelet's books.
        slices_per_card: that each is divided into.
        taken: slices of all pods on the node by now, and of those that are promised to it.
        latest: slices of each of these, the last first.
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
    """Take slices off the card with the least room that is enough, else off the freest ones."""
    if take_from_one(left, slices):
        return
    for at in sorted(range(len(left)), key=lambda at: -left[at]):
        given = min(left[at], slices)
        left[at] -= given
        slices -= given
