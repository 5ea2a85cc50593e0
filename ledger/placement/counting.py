"""How placement counts room, by what a share takes: slices of chosen GPUs, instances, or slices of a pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ledger.accounts import NodeAccount
from ledger.placement.packing import score_on_gpus
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement.shape_capacity import ShapeCapacity
from ledger.pool_room import has_room
from modes.fraction import Fraction
from modes.mode import Mode
from modes.units import Gpu, Pool, Profile, Unit


class Counting(NamedTuple):
    """How one kind of unit is counted."""

    capacity: Callable[[ShapeCapacity, Unit], Mapping[Unit, int] | Mapping[int, int]]
    """What pods can wait for on nodes of one shape: slices by GPU, or the amount of one resource unit."""
    free: Callable[[NodeAccount, Unit], tuple[int, ...]]
    """Sorted free slices per GPU, or the free amount of one resource unit."""
    score: Callable[[Sequence[int], Fraction, ShadowPrices], int | None]
    """A pod's score for these free slices, in UNITs of a slice; None if there is no room."""


def counting(mode: type[Mode]) -> Counting:
    """Return how a mode's shares are counted."""
    return _COUNTINGS[mode.takes]


def _score_in_pool(free: Sequence[int], fraction: Fraction, _: ShadowPrices) -> int | None:
    """Return a higher score for less room; None without room, on one card if cards are known."""
    return -sum(free) if has_room(free, fraction) else None


def _capacity_of_unit(nodes: ShapeCapacity, unit: Unit) -> Mapping[Unit, int]:
    return {unit: nodes.others[unit]}


_COUNTINGS: Mapping[type, Counting] = {
    Gpu: Counting(lambda nodes, _: nodes.slices, lambda account, _: account.state(), score_on_gpus),
    Pool: Counting(_capacity_of_unit, lambda account, _: account.pool_state(), _score_in_pool),
    # One amount is free, as in a pool without known cards: the node with fewer free instances is better.
    Profile: Counting(_capacity_of_unit, lambda account, unit: (account.free_of(unit),), _score_in_pool),
}
