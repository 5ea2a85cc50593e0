"""GPU amounts in a pod: checks them against the label, and replaces them."""

from __future__ import annotations

from modes.fraction import Fraction
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, merge, pointer, remove


def check_amounts(ref: ContainerRef, fraction: Fraction, said: str) -> Denial | None:
    """Check that a GPU container's amounts match the requested share (docs/reference/admission.md)."""
    if not ref.gpu_amounts:
        return None
    denial = check_clearml_fractions(ref, fraction, said)
    for resource, amount, kind in ref.gpu_amounts:
        if denial is None and not kind.is_clearml and not kind.agrees(amount, fraction):
            denial = _differs(resource, amount, said, f"remove it or use {fraction.counts_text}")
    return denial


def check_clearml_fractions(ref: ContainerRef, fraction: Fraction, said: str) -> Denial | None:
    """Check only `clear.ml/fraction-*`, which must equal the label."""
    for resource, amount, kind in ref.gpu_amounts:
        if kind.is_clearml and not kind.agrees(amount, fraction):
            return _differs(resource, amount, said, "remove it, or use the value of the label")
    return None


def replace_amounts(ref: ContainerRef, amounts: dict[str, str]) -> list[Operation]:
    """Write the mode's amounts, if any, into limits and requests instead of the user's GPU resources."""
    taken = {resource for resource, _, kind in ref.gpu_amounts if kind.is_replaced}
    return _replace(ref, taken - amounts.keys(), amounts)


def take_out_clearml_fractions(ref: ContainerRef) -> list[Operation]:
    """Remove only `clear.ml/fraction-*` from limits and requests."""
    return _replace(ref, {resource for resource, _, kind in ref.gpu_amounts if kind.is_clearml}, {})


def _replace(ref: ContainerRef, taken: set[str], amounts: dict[str, str]) -> list[Operation]:
    path, resources = ref.path + "/resources", ref.container.resources
    if resources is None:
        return [add(path, {"limits": amounts, "requests": amounts})] if amounts else []
    operations: list[Operation] = []
    for field, existing in (("limits", resources.limits), ("requests", resources.requests)):
        place = f"{path}/{field}"
        operations += [remove(place + pointer(resource)) for resource in existing or () if resource in taken]
        operations += merge(place, existing, amounts)
    return operations


def _differs(resource: str, amount: str | int, said: str, expected: str) -> Denial:
    return Denial.of(Reason.GPU_AMOUNT, f"{resource}: {amount} does not match {said}: {expected}")
