"""What the placeholders of limiters and policies stand for in one pod."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.fraction import Fraction
from policies.effective import EnvVar
from policies.placeholders import fill, used

MEMORY = "memory_mib"


def share_values(
    fraction: Fraction, indices: tuple[int, ...], memory_mib: int | None, namespace: str
) -> dict[str, str]:
    """Give every placeholder but `container` its value; `memory_mib` is absent for whole GPUs."""
    values = {
        "slices": str(fraction.slices_on_each),
        "slices_per_gpu": str(fraction.slices_per_gpu),
        "percent": str(fraction.slices_on_each * 100 // fraction.slices_per_gpu),
        "index": ",".join(map(str, indices)),
        "namespace": namespace,
    }
    if memory_mib is not None:
        values[MEMORY] = str(memory_mib)
    return values


def fill_env(variables: Iterable[EnvVar], values: dict[str, str]) -> dict[str, str]:
    """Fill variables in; those that speak of a MiB, which whole GPUs do not have, are left out."""
    return {
        variable.name: fill(variable.value, values)
        for variable in variables
        if MEMORY in values or MEMORY not in used(variable.value)
    }
