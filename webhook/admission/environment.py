"""Environment variables of GPU containers and of all others (docs/reference/admission.md)."""

from __future__ import annotations

from collections.abc import Mapping

from kube.device_keys import VISIBLE_DEVICES, is_removed, is_reserved
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, append, remove
from webhook.admission.pod import Container, EnvEntry

HIDDEN = {VISIBLE_DEVICES: "void"}
"""Variables of a container without a share."""
PRELOAD = "LD_PRELOAD"


def refuse_preload_from(container: Container) -> Denial | None:
    """Refuse LD_PRELOAD from a reference: its value is unknown, so our library cannot be put before it."""
    for entry in container.env or ():
        if entry.name == PRELOAD and entry.value_from is not None:
            return Denial.of(
                Reason.ENV_VALUE_FROM,
                f'container "{container.name}": {PRELOAD} comes from valueFrom: set it as a plain value,'
                " so that the limiter's library can be put before it",
            )
    return None


def limit_env(ref: ContainerRef, wanted: Mapping[str, str], preload: str | None) -> list[Operation]:
    """Set the variables of a GPU container: remove reserved ones, add ours once, prepend to LD_PRELOAD."""
    existing = ref.container.env or []
    if not any(_is_ours(entry.name) or entry.name in wanted for entry in existing):
        return _add(ref, wanted if preload is None else {**wanted, PRELOAD: preload})
    missing = _missing(existing, wanted)
    stale = {
        position
        for position, entry in enumerate(existing)
        if (is_reserved(entry.name) or entry.name in wanted) and not _is_kept(entry, wanted, missing)
    }
    operations: list[Operation] = []
    if preload is not None:
        operations, duplicates, absent = _join_preload(ref, preload)
        stale |= duplicates
        missing = missing | absent
    return [*operations, *_rewrite(ref, stale, missing)]


def clear_env(ref: ContainerRef, *, hides_gpus: bool) -> list[Operation]:
    """Remove variables that no container of the pod may set, from a container without a share.

    With `hides_gpus` also set NVIDIA_VISIBLE_DEVICES=void: its image may request all GPUs.
    """
    existing = ref.container.env or []
    missing = _missing(existing, HIDDEN) if hides_gpus else {}
    stale = {at for at, entry in enumerate(existing) if is_removed(entry.name) or entry.name in missing}
    return _rewrite(ref, stale, missing)


def _is_ours(name: str) -> bool:
    """Whether a pod's own variable with this name is removed or changed."""
    return is_reserved(name) or name == PRELOAD


def _missing(existing: list[EnvEntry], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted variables that are not present exactly once with exactly our value."""
    present: dict[str, list[EnvEntry]] = {}
    for entry in existing:
        if entry.name in wanted:
            present.setdefault(entry.name, []).append(entry)
    return {
        name: value
        for name, value in wanted.items()
        if [(entry.value or "", entry.value_from) for entry in present.get(name, ())] != [(value, None)]
    }


def _is_kept(entry: EnvEntry, wanted: Mapping[str, str], missing: Mapping[str, str]) -> bool:
    return entry.name in wanted and entry.name not in missing


def _join_preload(ref: ContainerRef, library: str) -> tuple[list[Operation], set[int], dict[str, str]]:
    """Put `library` before the effective (last) LD_PRELOAD; also return the copies to remove."""
    positions = [at for at, entry in enumerate(ref.container.env or ()) if entry.name == PRELOAD]
    if not positions:
        return [], set(), {PRELOAD: library}
    effective = positions[-1]
    theirs = (ref.container.env or [])[effective].value or ""
    duplicates = set(positions[:-1])
    if theirs == library or theirs.startswith((library + ":", library + " ")):
        return [], duplicates, {}
    joined = f"{library}:{theirs}" if theirs else library
    return [add(f"{ref.path}/env/{effective}/value", joined)], duplicates, {}


def _rewrite(ref: ContainerRef, stale: set[int], missing: Mapping[str, str]) -> list[Operation]:
    removals = [remove(f"{ref.path}/env/{position}") for position in sorted(stale, reverse=True)]
    return [*removals, *_add(ref, missing)]


def _add(ref: ContainerRef, missing: Mapping[str, str]) -> list[Operation]:
    additions = [{"name": name, "value": value} for name, value in missing.items()]
    return append(ref.path + "/env", ref.container.env, additions)
