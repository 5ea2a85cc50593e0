"""Which amounts of users' GPU resources can be meant by a fraction: a pod may say both."""

from __future__ import annotations

from kube.quantity import parse_quantity
from modes.fraction import Fraction
from modes.resource_kinds import ResourceKind


def fits(amount: str | int, kind: ResourceKind, fraction: Fraction) -> bool:
    """Whether an amount of a resource of this kind agrees with the fraction.

    Whole GPUs and slices of a pool may be one, the GPUs or the slices of the fraction, and zero, which asks
    for nothing. `clear.ml/fraction-*` must be the fraction itself. Amounts of other kinds always agree.
    """
    try:
        if kind.is_clearml:
            share = parse_quantity(amount)
            return share.numerator * fraction.slices_per_gpu == fraction.slices * share.denominator
        if kind.is_whole or kind.is_pool:
            return parse_quantity(amount) in {0, 1, fraction.gpus, fraction.slices}
    except ValueError:
        return False
    return True


def choices(fraction: Fraction) -> str:
    """Return the amounts of whole GPUs that agree with the fraction, as words: "1 or 4"."""
    return " or ".join(str(number) for number in sorted({1, fraction.gpus, fraction.slices}))
