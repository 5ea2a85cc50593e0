"""Reads the cards' CDI devices from the specifications in some folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from agent.card_specification import KIND
from agent.driver_limits import LimitHook

MAX_BYTES = 1024 * 1024
"""Maximum size of a specification; NVIDIA's has about 50 KiB."""
KINDS_OF_CARDS = KIND, "nvidia.com/gpu", "runtime.nvidia.com/gpu"
"""Ours, and those of NVIDIA's toolkit, the preferred ones first.

What NVIDIA's device plugin leaves behind (k8s.device-plugin.nvidia.com/gpu) is as old as its last start.
"""
LIMIT_HOOK = "apply-cuda-memory-limits"
"""Lets the driver limit a container's GPU memory; part of NVIDIA's container toolkit since 1.20.1."""
CardDevices = dict[str, LimitHook | None]
"""That hook of each device, by KIND=NAME."""


def card_devices(folders: Iterable[Path]) -> CardDevices:
    """Return the cards' devices; other files are skipped."""
    found: CardDevices = {}
    for folder in folders:
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.json")]):
            content = _read(path)
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind in KINDS_OF_CARDS:
                found |= {f"{kind}={name}": hook for name, hook in _devices(content)}
    return found


def _devices(content: dict[Any, Any]) -> Iterator[tuple[str, LimitHook | None]]:
    devices = content.get("devices")
    for each in devices if isinstance(devices, list) else ():
        if isinstance(each, dict) and isinstance(name := each.get("name"), str | int):
            yield str(name), _limit_hook(each)


def _limit_hook(device: dict[Any, Any]) -> LimitHook | None:
    edits = device.get("containerEdits")
    hooks = edits.get("hooks") if isinstance(edits, dict) else None
    for hook in hooks if isinstance(hooks, list) else ():
        if isinstance(hook, dict) and LIMIT_HOOK in (arguments := _texts(hook.get("args"))):
            return LimitHook(str(hook.get("path")), arguments, _texts(hook.get("env")))
    return None


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def _read(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 a safe one
    except Exception:  # noqa: BLE001 whatever YAML makes of a strange file must not hide the others
        return None
