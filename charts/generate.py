# ruff: noqa: INP001 - a script, not part of a package
"""`make chart`: generates values.schema.json and the table of the chart's README from values.yaml.

What comes from the list of device keys is in device_keys.py.

The comment directly above a key describes it; `@schema {...}` in it adds JSON Schema. If a key's children
have comments too, other children are errors. The schema of policies comes from the product's own model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts import device_keys
from policies.loading.reference import DRAFT, json_schema

CHART = Path(__file__).with_name("fraction-injector")
MARKER = "<!-- From here on made by `make chart` from values.yaml. -->"
TYPES = {bool: "boolean", dict: "object", int: "integer", list: "array", str: "string"}
KEY = re.compile(r"(?P<indent> *)(?P<name>[A-Za-z0-9]+):")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of values.yaml: its path, its default, and its comment."""

    path: tuple[str, ...]
    default: Any
    text: str
    schema: dict[str, Any]


def described_keys(source: str) -> Iterator[Key]:
    """Yield every key with a comment, in the order of the file.

    Raises:
        ValueError: a key has a schema but no description.
    """
    values = yaml.safe_load(source)
    path: list[str] = []
    comment: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        if match := KEY.match(line):
            path = [*path[: len(match["indent"]) // 2], match["name"]]
            if comment:
                yield Key(tuple(path), _at(values, path), *_read(comment, number))
        comment = []


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values[name]
    return values


def _read(comment: list[str], number: int) -> tuple[str, dict[str, Any]]:
    text = " ".join(line for line in comment if not line.startswith("@schema"))
    schemas = [line.removeprefix("@schema") for line in comment if line.startswith("@schema")]
    if not text:
        raise ValueError(f"values.yaml:{number}: has a schema but no description")
    return text, json.loads(schemas[0]) if schemas else {}


def make_schema(keys: list[Key]) -> dict[str, Any]:
    """Return the JSON Schema of the values."""
    schema = _object({})
    schema |= {"$schema": DRAFT, "title": "Values of the chart fraction-injector", "$defs": _definitions()}
    # Helm passes it to every subchart.
    schema["properties"]["global"] = {"type": "object"}
    parents: dict[tuple[str, ...], dict[str, Any]] = {(): schema}
    closed = {key.path[:-1] for key in keys}
    for key in keys:
        own = _schema_of(key, closed=key.path in closed)
        parents[key.path[:-1]]["properties"][key.path[-1]] = own
        parents[key.path] = own
    return schema


def _schema_of(key: Key, *, closed: bool) -> dict[str, Any]:
    if closed:
        return _object({"description": key.text})
    own = {"description": key.text, **key.schema}
    return own if "$ref" in own else {"type": TYPES[type(key.default)], **own}


def _object(rest: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", **rest, "properties": {}, "additionalProperties": False}


def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = json_schema()["$defs"]
    for kind in ("Policy", "Limiter"):
        # The chart writes both.
        for name in ("kind", "name"):
            del definitions[kind]["properties"][name]
        definitions[kind]["required"] = [
            name for name in definitions[kind].get("required", ()) if name not in {"kind", "name"}
        ]
    del definitions["Queues"]
    # YAML reads an unquoted 0.500 as the number 0.5, which is not a label value.
    definitions["TemplateOverrides"]["properties"]["labels"]["additionalProperties"] = {"type": "string"}
    return {
        **definitions,
        "policies": {**_map_of("Policy"), "required": ["default"]},
        "limiters": _map_of("Limiter"),
        "queues": _map_of("QueueEntry"),
    }


def _map_of(kind: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{kind}"}}


def make_table(keys: list[Key]) -> str:
    """Return the README's table of the values."""
    parents = {key.path[:-1] for key in keys}
    rows = [
        f"| `{'.'.join(key.path)}` | {'' if key.path in parents else _code(key.default)} | {key.text} |"
        for key in keys
    ]
    return "\n".join(["| value | default | description |", "|---|---|---|", *rows])


def _code(default: Any) -> str:
    return f"`{json.dumps(default)}`"


def generated() -> dict[Path, str]:
    """Return every generated file with its text."""
    keys = list(described_keys((CHART / "values.yaml").read_text()))
    readme = CHART / "README.md"
    prose, _, _ = readme.read_text().partition(MARKER)
    return {
        CHART / "values.schema.json": json.dumps(make_schema(keys), indent=2) + "\n",
        readme: f"{prose}{MARKER}\n\n{make_table(keys)}\n",
        device_keys.TEMPLATE: device_keys.make_template() + "\n",
        device_keys.PAGE: device_keys.make_page(),
    }


def main() -> None:
    """Write the files."""
    for file, text in generated().items():
        file.write_text(text)


if __name__ == "__main__":
    main()
