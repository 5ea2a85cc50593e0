"""The MIG manager's configurations: our entries in mig-parted's file, one per division of a node.

An entry's name is computed from node and division. Each entry exists twice, as "-a" and "-b", because the MIG
manager acts only if the label changes: a retry uses the other name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import yaml

from controller.geometry.model import Division
from modes.mig_geometry import Geometry, geometry

PREFIX = "fraction-injector-"
KEY = "config.yaml"
"""Key in the ConfigMap, as the GPU operator expects it."""
ATTEMPTS = ("a", "b")
MAX_BYTES = 900_000
"""Size of the file: a ConfigMap holds at most 1 MiB."""
_EMPTY: dict[str, Any] = {
    "all-disabled": [{"devices": "all", "mig-enabled": False}],
    "all-enabled": [{"devices": "all", "mig-enabled": True, "mig-devices": {}}],
}
"""The GPU operator's default configuration, and one that an admin may use; a new file contains both."""


class _Entry(msgspec.Struct, rename="kebab"):
    devices: list[int]
    mig_devices: dict[str, int]


class BrokenFileError(ValueError):
    """The ConfigMap's file does not have mig-parted's format; the text says what is wrong."""


def config_name(node: str, division: Division, attempt: str = ATTEMPTS[0]) -> str:
    """Return the name of the configuration for a division of a node."""
    text = "\n".join([node, *(" ".join(names) for names in division)])
    return f"{PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:16]}-{attempt}"


def other_attempt(name: str) -> str:
    """Return the other name of the same configuration."""
    stem, _, attempt = name.rpartition("-")
    return f"{stem}-{ATTEMPTS[1] if attempt == ATTEMPTS[0] else ATTEMPTS[0]}"


class MigConfigFile:
    """mig-parted's file, with our entries and others'."""

    def __init__(self, text: str | None) -> None:
        """Read a file; None starts a new one.

        Raises:
            BrokenFileError: it is not YAML in mig-parted's format.
        """
        self._others: dict[str, Any] = {}
        self.divisions: dict[str, Division] = {}
        """Our readable entries, by name."""
        for name, entry in _entries(text).items():
            if not str(name).startswith(PREFIX):
                self._others[name] = entry
            elif (division := _division(entry)) is not None:
                self.divisions[name] = division

    def copy(self) -> MigConfigFile:
        """Return a copy that can be changed."""
        other = MigConfigFile(None)
        other._others, other.divisions = self._others, dict(self.divisions)
        return other

    def add(self, node: str, division: Division) -> None:
        """Add the configuration of a division under both names."""
        for attempt in ATTEMPTS:
            self.divisions[config_name(node, division, attempt)] = division

    def keep(self, names: Collection[str]) -> None:
        """Remove our entries unless one of their two names is in `names`."""
        kept = {each for name in names for each in (name, other_attempt(name))}
        self.divisions = {name: each for name, each in self.divisions.items() if name in kept}

    def text(self) -> str:
        """Return the file's text.

        Raises:
            BrokenFileError: it is larger than a ConfigMap may be.
        """
        ours = {name: _entry(division) for name, division in sorted(self.divisions.items())}
        text = yaml.safe_dump({"version": "v1", "mig-configs": {**self._others, **ours}}, sort_keys=False)
        if len(text.encode()) > MAX_BYTES:
            raise BrokenFileError(
                f"{len(ours)} divisions need more than {MAX_BYTES} bytes: divide fewer nodes"
            )
        return text


def _entries(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return _EMPTY
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BrokenFileError(f"it is not YAML: {str(error).splitlines()[0]}") from None
    found = content.get("mig-configs", {}) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise BrokenFileError("it has no mapping mig-configs")
    return found


def _division(entry: Any) -> Division | None:
    """Return the division that one of our entries describes; None if somebody has changed it."""
    try:
        cards = msgspec.convert(entry, list[_Entry])
    except msgspec.ValidationError:
        return None
    if [card.devices for card in cards] != [[index] for index in range(len(cards))]:
        return None
    return tuple(geometry(Counter(card.mig_devices).elements()) for card in cards)


def _entry(division: Iterable[Geometry]) -> list[dict[str, Any]]:
    return [
        {"devices": [index], "mig-enabled": True, "mig-devices": dict(Counter(names))}
        for index, names in enumerate(division)
    ]
