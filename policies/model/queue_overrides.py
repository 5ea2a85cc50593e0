"""Applies a queue entry to the policy that the queue's pods follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.model.schema import Policy, QueueEntry

OVERRIDES: Mapping[str, tuple[str, ...]] = {
    "limiter": ("limiter",),
    "fractions": ("fractions",),
    "place": ("place",),
    "same_model": ("same_model",),
    "prefer": ("resources", "prefer"),
    "share": ("share",),
    "idle_after": ("idle_after",),
    "reclaim_idle": ("reclaim_idle",),
    "when_over_quota": ("quotas", "when_over_quota"),
}
"""Field of a queue entry, and the path of the policy field that it replaces. Limits are in `quotas.py`."""


def with_overrides(policy: Policy, entry: QueueEntry) -> Policy:
    """Return the policy with a queue entry's changes; the same object if the entry changes nothing."""
    update: dict[str, Any] = {}
    for field, (head, *rest) in OVERRIDES.items():
        value = getattr(entry, field)
        if value is not None:
            update[head] = _replaced(getattr(policy, head), rest, value)
    return policy.model_copy(update=update) if update else policy


def _replaced(part: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    return part.model_copy(update={path[0]: _replaced(getattr(part, path[0]), path[1:], value)})


def key_of(path: tuple[str, ...]) -> str | None:
    """Return the key of a queue entry that replaces a policy key; None if none does.

    Args:
        path: the policy key as in files, such as ("resources", "prefer").
    """
    return _KEYS.get(path)


def _written(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a policy's field as in files."""
    model: Any = Policy
    written = []
    for name in path:
        field = model.model_fields[name]
        written.append(field.alias or name)
        model = field.annotation
    return tuple(written)


_KEYS = {_written(path): QueueEntry.model_fields[field].alias or field for field, path in OVERRIDES.items()}
