"""Prints the CDI devices of cards in some folders as JSON: by kind and name the hook that limits, if any.

The agent runs it as a process of its own, as it does `agent.policy_compiler`.
"""

from __future__ import annotations

import json  # msgspec takes longer to load than all else here
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 4 * 1024 * 1024
"""Of one specification; NVIDIA's has some 50 KiB."""
KINDS_OF_CARDS = "nvidia.com/gpu", "clearml-injector.io/card"
"""End their kinds: NVIDIA's, and ours, which the agent has made.

Of others there may be a file for each container, and the agent has no use for them."""
LIMIT_HOOK = "apply-cuda-memory-limits"
"""Has the driver hold a container to GPU memory; of NVIDIA's container toolkit, from 1.20.1 on."""
MAX_HOOKS, MAX_TEXTS = 100, 20
Hook = dict[str, Any]
"""Path, args and env."""


def card_devices(folders: Iterable[Path]) -> dict[str, dict[str, Hook | None]]:
    """Return that hook of each device by kind and name; files that are no specifications are left out."""
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
    for hook in hooks[:MAX_HOOKS] if isinstance(hooks, list) else ():
        if isinstance(hook, dict) and LIMIT_HOOK in (arguments := _texts(hook.get("args"))):
            return {"path": str(hook.get("path")), "args": arguments, "env": _texts(hook.get("env"))}
    return None


def _texts(found: Any) -> list[str]:
    return (
        [str(each) for each in found[:MAX_TEXTS] if isinstance(each, str)] if isinstance(found, list) else []
    )


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
