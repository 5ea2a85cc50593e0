"""Applies a queue entry to the policy that the queue's pods follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

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
    for field, path in OVERRIDES.items():
        if (value := getattr(entry, field)) is not None:
            policy = _replaced(policy, path, value)
    return policy


def _replaced(part: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    return part.model_copy(update={path[0]: _replaced(getattr(part, path[0]), path[1:], value)})


def key_of(path: tuple[str, ...]) -> str | None:
    """Return the key of a queue entry that replaces a policy key; None if none does.

    Args:
        path: the policy key as in files, such as ("resources", "prefer").
    """
    written = ((field, tuple(map(to_camel, of_policy))) for field, of_policy in OVERRIDES.items())
    return next((to_camel(field) for field, of_policy in written if of_policy == path), None)
