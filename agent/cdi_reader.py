"""Reads the cards' CDI devices from the specifications in some folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
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


class _Edits(msgspec.Struct):
    hooks: list[LimitHook] | None = None
    """None also for a key without a value, as it is left when its hooks are commented out."""


class _Device(msgspec.Struct):
    name: str | int
    edits: _Edits | None = msgspec.field(name="containerEdits", default=None)

    def limit_hook(self) -> LimitHook | None:
        hooks = self.edits.hooks if self.edits is not None else None
        return next((hook for hook in hooks or () if LIMIT_HOOK in hook.args), None)


class _Specification(msgspec.Struct):
    kind: str
    devices: list[_Device]


def card_devices(folders: Iterable[Path]) -> CardDevices:
    """Return the cards' devices; other and invalid files are skipped."""
    found: CardDevices = {}
    for folder in folders:
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.json")]):
            content = _read(path)
            if content is not None and content.kind in KINDS_OF_CARDS:
                found |= {f"{content.kind}={each.name}": each.limit_hook() for each in content.devices}
    return found


def _read(path: Path) -> _Specification | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 a safe one
        return msgspec.convert(content, _Specification)
    except Exception:  # noqa: BLE001 whatever YAML makes of a strange file must not hide the others
        return None
