"""GPU amounts a pod brings, whether they agree with the label, and what replaces them."""

from __future__ import annotations

from fractions import Fraction as Rational

from ledger.fraction import Fraction
from ledger.quantity import parse_quantity
from webhook.injection.modes import Mode
from webhook.injection.patch import Operation, add, merge, pointer, remove
from webhook.pod import LABEL, Container, Slot
from webhook.reasons import Denial, Reason

WHOLE_GPU_NAMES = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
CLEARML_FRACTION_PREFIX = "clear.ml/fraction-"

Amounts = dict[str, str | int]


def replaces(resource: str) -> bool:
    """Whether the resource is a user's way to ask for a GPU, which ours takes the place of."""
    return resource in WHOLE_GPU_NAMES or resource.startswith(CLEARML_FRACTION_PREFIX)


def asks_for_gpu(container: Container, mode: Mode) -> bool:
    """Whether the container asks for a GPU, in the user's words or, after a first review, in ours."""
    return any(
        (replaces(resource) or mode.is_index(resource) or mode.is_pool(resource)) and not _is_zero(amount)
        for amounts in _both(container)
        for resource, amount in amounts.items()
    )


def check_amounts(slot: Slot, mode: Mode, fraction: Fraction, text: str) -> Denial | None:
    """Check that what a GPU container asks for can be meant by the label `text` (design: step "limits")."""
    denial = check_clearml_fractions(slot, fraction, text)
    for amounts in _both(slot.container):
        for resource, amount in amounts.items():
            if resource in WHOLE_GPU_NAMES or mode.is_pool(resource):
                expected = f"leave it out or use {_choices(fraction)}"
                denial = denial or _check(resource, amount, _counts(fraction), text, expected)
    return denial


def check_clearml_fractions(slot: Slot, fraction: Fraction, text: str) -> Denial | None:
    """Check only `clear.ml/fraction-*`, which must equal the label `text`."""
    share = {Rational(fraction.slices, fraction.slices_per_gpu)}
    denial = None
    for amounts in _both(slot.container):
        for resource, amount in amounts.items():
            if resource.startswith(CLEARML_FRACTION_PREFIX):
                denial = denial or _check(resource, amount, share, text, "the two must agree")
    return denial


def replace_amounts(slot: Slot, amounts: dict[str, str]) -> list[Operation]:
    """Put the mode's amounts in limits and requests, and take the user's GPU resources out of both."""
    path = slot.path + "/resources"
    resources = slot.container.resources
    if resources is None:
        return [add(path, {"limits": amounts, "requests": amounts})]
    return [
        *_replace_in(path + "/limits", resources.limits, amounts),
        *_replace_in(path + "/requests", resources.requests, amounts),
    ]


def take_out_clearml_fractions(slot: Slot) -> list[Operation]:
    """Take `clear.ml/fraction-*` out of limits and requests, and leave all else."""
    resources = slot.container.resources
    if resources is None:
        return []
    return [
        remove(f"{slot.path}/resources/{field}" + pointer(resource))
        for field, amounts in (("limits", resources.limits), ("requests", resources.requests))
        for resource in amounts or ()
        if resource.startswith(CLEARML_FRACTION_PREFIX)
    ]


def _both(container: Container) -> tuple[Amounts, ...]:
    resources = container.resources
    if resources is None:
        return ()
    return tuple(amounts for amounts in (resources.limits, resources.requests) if amounts)


def _is_zero(amount: str | int) -> bool:
    return amount in ("0", 0)


def _check(
    resource: str, amount: str | int, allowed: set[Rational], text: str, expected: str
) -> Denial | None:
    try:
        agrees = Rational(parse_quantity(amount)) in allowed
    except ValueError:
        agrees = False
    if agrees:
        return None
    return Denial.of(Reason.GPU_AMOUNT, f'{resource}: {amount} does not fit {LABEL} "{text}": {expected}')


def _counts(fraction: Fraction) -> set[Rational]:
    """GPUs or slices that a whole number may mean beside the label; zero asks for nothing."""
    return {Rational(number) for number in (0, 1, fraction.gpus, fraction.slices)}


def _choices(fraction: Fraction) -> str:
    numbers = sorted({1, fraction.gpus, fraction.slices})
    return " or ".join(str(number) for number in numbers)


def _replace_in(path: str, existing: Amounts | None, amounts: dict[str, str]) -> list[Operation]:
    removals = [
        remove(path + pointer(resource))
        for resource in existing or ()
        if replaces(resource) and resource not in amounts
    ]
    return [*removals, *merge(path, existing, dict(amounts))]
