"""Prints the names of all CDI devices in some folders as JSON, by kind.

The agent runs it as a process of its own, as it does `agent.policy_compiler`.
"""

from __future__ import annotations

import json  # msgspec takes longer to load than all else here
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 4 * 1024 * 1024
"""Of one specification; NVIDIA's has some 50 KiB."""


def device_names(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Return the names of devices by kind; files that are no specifications are left out."""
    names: dict[str, list[str]] = {}
    for folder in folders:
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.json")]):
            content = _read(path)
            if isinstance(content, dict) and isinstance(content.get("devices"), list):
                devices = [each for each in content["devices"] if isinstance(each, dict)]
                names.setdefault(str(content.get("kind")), []).extend(
                    str(name) for each in devices if isinstance(name := each.get("name"), str | int)
                )
    return names


def _read(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 a safe one
    except Exception:  # noqa: BLE001 whatever YAML makes of a strange file must not hide the others
        return None


if __name__ == "__main__":
    json.dump(device_names(map(Path, sys.argv[1:])), sys.stdout)
