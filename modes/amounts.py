"""Compares the amounts of users' GPU resources with the label's fraction, as a pod may state both."""

from __future__ import annotations

from kube.quantity import parse_quantity
from modes.fraction import Fraction
from modes.resource_kinds import ResourceKind


def fits(amount: str | int, kind: ResourceKind, fraction: Fraction) -> bool:
    """Whether an amount of a resource of this kind agrees with the fraction.

    Whole GPUs and slices of a pool may be 1, the number of GPUs or slices of the fraction, or 0, which
    requests nothing. `clear.ml/fraction-*` must equal the label, for each GPU if several are shared.
    Amounts of other kinds always agree.
    """
    if not (kind.is_clearml or kind.is_whole or kind.is_pool or kind.is_instance):
        return True
    try:
        value = parse_quantity(amount)
    except ValueError:
        return False
    # In integers: comparing and hashing fractions is slower, and every pod needs it.
    if kind.is_instance:
        return value in {0, 1}
    if kind.is_clearml and fraction.mib:
        return False
    if kind.is_clearml:
        share, one = fraction.exact or (fraction.slices // fraction.parts, fraction.slices_per_gpu)
        return value.numerator * one == share * value.denominator
    return value.denominator == 1 and value.numerator in {0, *_counts(fraction)}


def choices(fraction: Fraction) -> str:
    """Return the amounts of whole GPUs that agree with the fraction, as text: "1 or 4"."""
    return " or ".join(str(number) for number in sorted(_counts(fraction)))


def _counts(fraction: Fraction) -> set[int]:
    """One, the number of GPUs, and the slices: the total, and those on each GPU."""
    return {1, fraction.gpus, fraction.slices, fraction.slices // fraction.parts}
