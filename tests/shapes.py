"""Pods as other projects make them (tests/fixtures/shapes), and what the table there expects of each."""

import re
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "fixtures" / "shapes"
_ROW = re.compile(r"^\| (?P<name>[a-z0-9-]+) \| (?P<source>.+) \| .+ \| (?P<expected>.+) \|$", re.MULTILINE)


def table() -> dict[str, tuple[str, str]]:
    """Return the table: name of each shape to its source and to what is expected of it, as written."""
    rows = _ROW.finditer((FOLDER / "README.md").read_text())
    _head, *shapes = rows
    return {row["name"]: (row["source"], row["expected"].replace("`", "")) for row in shapes}


TABLE = table()
EXPECTED = {name: text for name, (_, text) in TABLE.items()}
"""Name of each shape to the container that gets the share, or to "denied: " and the code."""


def shape(name: str) -> dict[str, Any]:
    """Return a shape as its author sends it."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def holders(pod: dict[str, Any]) -> list[str]:
    """Return the regular containers of an admitted pod that hold slices of a GPU."""
    return [
        each["name"]
        for each in pod["spec"]["containers"]
        if any(name.startswith("nvidia.com/gpu") for name in each.get("resources", {}).get("limits", {}))
    ]
