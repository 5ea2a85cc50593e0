"""Environment of GPU containers and of all others (design: step "env" of the admission table)."""

from __future__ import annotations

from collections.abc import Mapping

from policies.model.reserved import is_reserved
from webhook.admission.container_refs import Slot
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import Operation, add, append, remove
from webhook.admission.pod import Container, EnvEntry

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_HIDDEN = {VISIBLE_DEVICES: "void"}
PRELOAD = "LD_PRELOAD"


def refuse_preload_from(container: Container) -> Denial | None:
    """Refuse LD_PRELOAD from a reference: its text is not known here, so ours cannot be put before it."""
    for entry in container.env or ():
        if entry.name == PRELOAD and entry.value_from is not None:
            return Denial.of(
                Reason.ENV_VALUE_FROM,
                f'container "{container.name}": {PRELOAD} comes from valueFrom: give it as a plain value,'
                " the limiter's library must go before it",
            )
    return None


def limit_env(slot: Slot, wanted: Mapping[str, str], preload: str | None) -> list[Operation]:
    """Give a GPU container its variables: reserved copies go, ours stand once, LD_PRELOAD is joined."""
    existing = slot.container.env or []
    if not any(_is_ours(entry.name) or entry.name in wanted for entry in existing):
        return _add(slot, wanted if preload is None else {**wanted, PRELOAD: preload})
    missing = _missing(existing, wanted)
    stale = {
        position
        for position, entry in enumerate(existing)
        if (is_reserved(entry.name) or entry.name in wanted) and not _is_kept(entry, wanted, missing)
    }
    operations: list[Operation] = []
    if preload is not None:
        operations, duplicates, absent = _join_preload(slot, preload)
        stale |= duplicates
        missing = missing | absent
    return [*operations, *_rewrite(slot, stale, missing)]


def hide_gpus(slot: Slot) -> list[Operation]:
    """Give a container without a share NVIDIA_VISIBLE_DEVICES=void, so that its image cannot ask for all."""
    copies = [at for at, entry in enumerate(slot.container.env or ()) if entry.name == VISIBLE_DEVICES]
    if not copies:
        return _add(slot, _HIDDEN)
    missing = _missing(slot.container.env or [], _HIDDEN)
    return _rewrite(slot, set(copies) if missing else set(), missing)


def _is_ours(name: str) -> bool:
    """Whether a variable of that name, when a pod brings it, is removed or joined."""
    return is_reserved(name) or name == PRELOAD


def _missing(existing: list[EnvEntry], wanted: Mapping[str, str]) -> dict[str, str]:
    """Those of the wanted variables that do not stand exactly once, with exactly our value."""
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


def _join_preload(slot: Slot, library: str) -> tuple[list[Operation], set[int], dict[str, str]]:
    """Put `library` before the effective (last) LD_PRELOAD; also name the copies to remove."""
    positions = [at for at, entry in enumerate(slot.container.env or ()) if entry.name == PRELOAD]
    if not positions:
        return [], set(), {PRELOAD: library}
    effective = positions[-1]
    theirs = (slot.container.env or [])[effective].value or ""
    duplicates = set(positions[:-1])
    if theirs == library or theirs.startswith((library + ":", library + " ")):
        return [], duplicates, {}
    joined = f"{library}:{theirs}" if theirs else library
    return [add(f"{slot.path}/env/{effective}/value", joined)], duplicates, {}


def _rewrite(slot: Slot, stale: set[int], missing: Mapping[str, str]) -> list[Operation]:
    removals = [remove(f"{slot.path}/env/{position}") for position in sorted(stale, reverse=True)]
    return [*removals, *_add(slot, missing)]


def _add(slot: Slot, missing: Mapping[str, str]) -> list[Operation]:
    additions = [{"name": name, "value": value} for name, value in missing.items()]
    return append(slot.path + "/env", slot.container.env, additions)
