"""Environment variables of GPU containers and of all others (docs/reference/admission.md)."""

from __future__ import annotations

from collections.abc import Mapping

from kube.device_keys import VISIBLE_DEVICES, removed, reserved
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, append, remove
from webhook.admission.pod import EnvEntry

HIDDEN = {VISIBLE_DEVICES: "void"}
"""Variables of a container without a share."""
PRELOAD = "LD_PRELOAD"


def refuse_preload_from(ref: ContainerRef) -> Denial | None:
    """Refuse LD_PRELOAD from a reference: its value is unknown, so our library cannot be put before it."""
    for _, entry in _entries(ref, ref.variables & {PRELOAD}):
        if entry.value_from is not None:
            return Denial.of(
                Reason.ENV_VALUE_FROM,
                f'container "{ref.container.name}": {PRELOAD} comes from valueFrom: set it as a plain value,'
                " so that the limiter's library can be put before it",
            )
    return None


def limit_env(ref: ContainerRef, wanted: Mapping[str, str], preload: str | None) -> list[Operation]:
    """Set the variables of a GPU container: remove reserved ones, add ours once, prepend to LD_PRELOAD."""
    existing = _entries(ref, reserved(ref.variables) | (wanted.keys() & ref.variables))
    missing = _missing(existing, wanted)
    stale = {at for at, entry in existing if entry.name not in wanted or entry.name in missing}
    operations: list[Operation] = []
    if preload is not None and PRELOAD in ref.variables:
        operations, duplicates = _join_preload(ref, preload)
        stale |= duplicates
    elif preload is not None:
        missing[PRELOAD] = preload
    return [*operations, *_rewrite(ref, stale, missing)]


def clear_env(ref: ContainerRef, *, hides_gpus: bool) -> list[Operation]:
    """Remove variables that no container of the pod may set, from a container without a share.

    With `hides_gpus` also set NVIDIA_VISIBLE_DEVICES=void: its image may request all GPUs.
    """
    wanted = HIDDEN if hides_gpus else {}
    unwanted = removed(ref.variables)
    existing = _entries(ref, unwanted | (wanted.keys() & ref.variables))
    missing = _missing(existing, wanted)
    return _rewrite(ref, {at for at, entry in existing if entry.name in unwanted | missing.keys()}, missing)


def _entries(ref: ContainerRef, names: set[str]) -> list[tuple[int, EnvEntry]]:
    if not names:
        return []
    return [(at, entry) for at, entry in enumerate(ref.container.env or ()) if entry.name in names]


def _missing(existing: list[tuple[int, EnvEntry]], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted variables that are not present exactly once with exactly our value."""
    present: dict[str, list[EnvEntry]] = {}
    for _, entry in existing:
        present.setdefault(entry.name, []).append(entry)
    return {
        name: value
        for name, value in wanted.items()
        if name not in present
        or [(entry.value or "", entry.value_from) for entry in present[name]] != [(value, None)]
    }


def _join_preload(ref: ContainerRef, library: str) -> tuple[list[Operation], set[int]]:
    """Put `library` before the effective (last) LD_PRELOAD; also return the copies to remove."""
    *duplicates, (effective, entry) = _entries(ref, {PRELOAD})
    theirs, stale = entry.value or "", {at for at, _ in duplicates}
    if theirs == library or theirs.startswith((library + ":", library + " ")):
        return [], stale
    joined = f"{library}:{theirs}" if theirs else library
    return [add(f"{ref.path}/env/{effective}/value", joined)], stale


def _rewrite(ref: ContainerRef, stale: set[int], missing: Mapping[str, str]) -> list[Operation]:
    removals = [remove(f"{ref.path}/env/{position}") for position in sorted(stale, reverse=True)]
    additions = [{"name": name, "value": value} for name, value in missing.items()]
    return [*removals, *append(ref.path + "/env", ref.container.env, additions)]
