"""GPU amounts in a pod: checks them against the label, and replaces them."""

from __future__ import annotations

from modes.fraction import Fraction
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, merge, pointer, remove

Amounts = dict[str, str | int]


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
    """Write the mode's amounts into limits and requests, and remove the user's GPU resources from both."""
    path = ref.path + "/resources"
    resources = ref.container.resources
    if resources is None:
        return [add(path, {"limits": amounts, "requests": amounts})]
    replaced = {resource for resource, _, kind in ref.gpu_amounts if kind.is_replaced} - amounts.keys()
    return [
        *_replace_in(path + "/limits", resources.limits, amounts, replaced),
        *_replace_in(path + "/requests", resources.requests, amounts, replaced),
    ]


def take_out_clearml_fractions(ref: ContainerRef) -> list[Operation]:
    """Remove only `clear.ml/fraction-*` from limits and requests."""
    return _take_out(ref, {resource for resource, _, kind in ref.gpu_amounts if kind.is_clearml})


def take_out_amounts(ref: ContainerRef) -> list[Operation]:
    """Remove ClearML's and NVIDIA's resources for a share from limits and requests."""
    return _take_out(ref, {resource for resource, _, kind in ref.gpu_amounts if kind.is_replaced})


def _take_out(ref: ContainerRef, taken: set[str]) -> list[Operation]:
    resources = ref.container.resources
    if resources is None:
        return []
    return [
        remove(f"{ref.path}/resources/{field}{pointer(resource)}")
        for field, amounts in (("limits", resources.limits), ("requests", resources.requests))
        for resource in amounts or ()
        if resource in taken
    ]


def _differs(resource: str, amount: str | int, said: str, expected: str) -> Denial:
    return Denial.of(Reason.GPU_AMOUNT, f"{resource}: {amount} does not match {said}: {expected}")


def _replace_in(
    path: str, existing: Amounts | None, amounts: dict[str, str], replaced: set[str]
) -> list[Operation]:
    removals = [remove(path + pointer(resource)) for resource in existing or () if resource in replaced]
    return [*removals, *merge(path, existing, amounts)]
