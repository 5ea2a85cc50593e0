"""JSON Patch operations (RFC 6902) on known fields."""

from __future__ import annotations

from typing import Any

import msgspec

Operation = dict[str, Any]

encode = msgspec.json.Encoder().encode
"""Returns the JSON text of operations, or of any value in them."""


def pointer(key: str) -> str:
    """Return an object's key as a part of a JSON Pointer, with `~` and `/` escaped (RFC 6901)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def add(path: str, value: Any) -> Operation:
    """Add or replace a member, or insert into a list."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Remove an existing value."""
    return {"op": "remove", "path": path}


def joined(operations: list[Operation], patch: bytes) -> bytes:
    """Return the text of a patch with operations before it; an empty text is an empty patch."""
    first: bytes = encode(operations)
    return first[:-1] + b"," + patch[1:] if patch else first


def append(path: str, existing: list[Any] | None, values: list[Any]) -> list[Operation]:
    """Add values to the end of a list that may be missing, null or empty."""
    if not values:
        return []
    if not existing:
        return [add(path, values)]
    path += "/-"
    return [{"op": "add", "path": path, "value": value} for value in values]


def merge(path: str, existing: dict[str, Any] | None, values: dict[str, Any]) -> list[Operation]:
    """Set members of an object that may be missing or null; omit members that already have the value."""
    if existing is None:
        return [add(path, values)] if values else []
    return [add(path + pointer(key), value) for key, value in values.items() if existing.get(key) != value]
