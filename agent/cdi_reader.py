"""Prints the cards' CDI devices in some folders as JSON: the hook for driver limits by kind and name.

The agent runs it as a separate process, like `agent.policy_compiler`.
"""

from __future__ import annotations

import json  # msgspec takes longer to load than everything else here
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a specification; NVIDIA's has about 50 KiB."""
KINDS_OF_CARDS = "nvidia.com/gpu", "clearml-injector.io/card"
"""Suffixes of the kinds to read: NVIDIA's, and ours for cards.

Others may have a file for each container, and the agent does not need them."""
LIMIT_HOOK = "apply-cuda-memory-limits"
"""Lets the driver limit a container's GPU memory; part of NVIDIA's container toolkit since 1.20.1."""
Hook = dict[str, Any]
"""Path, args and env."""


def card_devices(folders: Iterable[Path]) -> dict[str, dict[str, Hook | None]]:
    """Return that hook of each device, by kind and name; other files are skipped."""
    found: dict[str, dict[str, Hook | None]] = {}
    for folder in folders:
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.json")]):
            content = _read(path)
            kind = content.get("kind") if isinstance(content, dict) else None
            if isinstance(kind, str) and kind.endswith(KINDS_OF_CARDS):
                found.setdefault(kind, {}).update(_devices(content))
    return found


def _devices(content: dict[Any, Any]) -> Iterator[tuple[str, Hook | None]]:
    devices = content.get("devices")
    for each in devices if isinstance(devices, list) else ():
        if isinstance(each, dict) and isinstance(name := each.get("name"), str | int):
            yield str(name), _limit_hook(each)


def _limit_hook(device: dict[Any, Any]) -> Hook | None:
    edits = device.get("containerEdits")
    hooks = edits.get("hooks") if isinstance(edits, dict) else None
    for hook in hooks if isinstance(hooks, list) else ():
        if isinstance(hook, dict) and LIMIT_HOOK in (arguments := _texts(hook.get("args"))):
            return {"path": str(hook.get("path")), "args": arguments, "env": _texts(hook.get("env"))}
    return None


def _texts(found: Any) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _read(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 a safe one
    except Exception:  # noqa: BLE001 whatever YAML makes of a strange file must not hide the others
        return None


if __name__ == "__main__":
    json.dump(card_devices(map(Path, sys.argv[1:])), sys.stdout)
