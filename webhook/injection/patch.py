"""JSON Patch operations (RFC 6902), built directly on the fields we know."""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def pointer(*keys: str) -> str:
    """Join object keys to a JSON Pointer, with `~` and `/` escaped (RFC 6901)."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def add(path: str, value: Any) -> Operation:
    """Add a member, or insert into a list; an existing member is replaced."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Remove what must exist."""
    return {"op": "remove", "path": path}


def append(path: str, existing: list[Any] | None, values: list[Any]) -> list[Operation]:
    """Add values to the end of a list that may be missing, null or empty."""
    if not values:
        return []
    if not existing:
        return [add(path, values)]
    return [add(f"{path}/-", value) for value in values]


def merge(path: str, existing: dict[str, Any] | None, values: dict[str, Any]) -> list[Operation]:
    """Set members of an object that may be missing or null; members that are so already stay untouched."""
    if existing is None:
        return [add(path, values)] if values else []
    return [add(path + pointer(key), value) for key, value in values.items() if existing.get(key) != value]
