"""The reference of policy files, made from the model: JSON Schema for editors, tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from policies.loading.sources import EXTENDS, OWN_KEYS
from policies.model.placeholders import PLACEHOLDERS
from policies.model.schema import KINDS, AnyKind

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of one document of a policy directory."""
    schema = TypeAdapter(AnyKind).json_schema(by_alias=True)
    _allow_extensions(schema["$defs"])
    return {"$schema": DRAFT, "title": "Policy files of the GPU Fraction Injector", **schema}


def _allow_extensions(definitions: dict[str, Any]) -> None:
    """Let a limiter that extends a preset leave out the preset's keys: the model gets it complete."""
    required = definitions["InitContainerPart"].pop("required")
    whole = {"properties": {"initContainer": {"required": required}}}
    definitions["Limiter"] |= {
        "if": {"required": [EXTENDS]},
        "then": {"propertyNames": {"enum": list(OWN_KEYS)}},
        "else": whole,
    }


def markdown() -> str:
    """Return Markdown tables of all keys of all kinds, and of the placeholders."""
    schemas = json_schema()["$defs"]
    blocks = [_kind_block(kind, schemas) for kind in KINDS]
    return "\n".join([*blocks, _placeholder_block()])


def _kind_block(kind: str, schemas: dict[str, Any]) -> str:
    schema = schemas[kind]
    rows = "\n".join(f"| {key} | {text} |" for key, text in _rows(schema, schemas, "", {}))
    head = (
        f"## kind: {kind}\n\n{schema['description']}\n\n| key, with its default | what it says |\n|---|---|\n"
    )
    return f"{head}{rows}\n"


def _rows(
    schema: dict[str, Any], schemas: dict[str, Any], prefix: str, shown: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the rows of a definition and those below it, each definition once: `shown` has its key."""
    required = schema.get("required", ())
    for key, field in schema.get("properties", {}).items():
        below, step = _below(field)
        text = field.get("description") or (schemas[below]["description"] if below else "")
        same = f" Keys as of `{shown[below]}`." if below in shown else ""
        yield _with_default(prefix + key, field, required=key in required), text + same
        if below is not None and not same:
            shown[below] = prefix + key
            yield from _rows(schemas[below], schemas, f"{prefix}{key}{step}.", shown)


def _with_default(key: str, field: dict[str, Any], *, required: bool) -> str:
    value = field.get("default")
    if required or value is None:
        return f"`{key}`" + " (required)" * required
    return f"`{key}: {value if isinstance(value, str) else json.dumps(value)}`"


def _below(field: dict[str, Any]) -> tuple[str | None, str]:
    """Return the definition that a field's value, items or named values refer to, and the path step to it."""
    steps = ((field, ""), (field.get("items", {}), "[]"), (field.get("additionalProperties", {}), ".<name>"))
    for part, step in steps:
        for option in (part, *part.get("anyOf", ())) if isinstance(part, dict) else ():
            if "$ref" in option:
                return str(option["$ref"]).rpartition("/")[2], step
    return None, ""


def _placeholder_block() -> str:
    rows = "\n".join(f"| `{{{name}}}` | {text} |" for name, text in PLACEHOLDERS.items())
    return f"## Placeholders\n\n| in values of variables | replaced by |\n|---|---|\n{rows}\n"
