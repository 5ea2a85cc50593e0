"""The MIG manager's configurations: our entries in mig-parted's file, one for each division of a node.

An entry's name follows from node and division, and stands twice, with "-a" and "-b" at its end: the MIG
manager acts when the label changes, so trying again takes another name for the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any

import msgspec
import yaml

from modes.mig_geometry import Geometry, geometry

PREFIX = "fraction-injector-"
KEY = "config.yaml"
"""Of the ConfigMap, where the GPU operator looks for it."""
ATTEMPTS = ("a", "b")
MAX_INSTANCES = 8
"""On a card."""
MAX_BYTES = 900_000
"""Of the file: a ConfigMap has a MiB at most."""
_EMPTY: dict[str, Any] = {
    "all-disabled": [{"devices": "all", "mig-enabled": False}],
    "all-enabled": [{"devices": "all", "mig-enabled": True, "mig-devices": {}}],
}
"""What the GPU operator asks for by default, and what an admin may ask for: in a file that we begin."""
Division = tuple[Geometry, ...]
"""Geometry of each card of a node, by index."""


class _Entry(msgspec.Struct, rename="kebab"):
    devices: list[int]
    mig_devices: dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class BrokenFileError(ValueError):
    """The file in the ConfigMap is not mig-parted's; the text says what is wrong."""


def config_name(node: str, division: Division, attempt: str = ATTEMPTS[0]) -> str:
    """Return the name of the configuration that divides a node so."""
    text = "\n".join([node, *(" ".join(names) for names in division)])
    return f"{PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:16]}-{attempt}"


def other_attempt(name: str) -> str:
    """Return the other name of the same configuration."""
    stem, _, attempt = name.rpartition("-")
    return f"{stem}-{ATTEMPTS[1] if attempt == ATTEMPTS[0] else ATTEMPTS[0]}"


class MigConfigFile:
    """mig-parted's file with ours and others' entries."""

    def __init__(self, text: str | None) -> None:
        """Read a file; None begins one.

        Raises:
            BrokenFileError: it is no YAML of mig-parted's form.
        """
        self._others: dict[str, Any] = {}
        self.divisions: dict[str, Division] = {}
        """Ours, by name, those that can be read."""
        for name, entry in _entries(text).items():
            if not str(name).startswith(PREFIX):
                self._others[name] = entry
            elif (division := _division(entry)) is not None:
                self.divisions[name] = division

    def copy(self) -> MigConfigFile:
        """Return a file with the same entries, to be changed."""
        other = MigConfigFile(None)
        other._others, other.divisions = self._others, dict(self.divisions)
        return other

    def add(self, node: str, division: Division) -> None:
        """Add the configuration of a division, under both of its names."""
        for attempt in ATTEMPTS:
            self.divisions[config_name(node, division, attempt)] = division

    def keep(self, names: Collection[str]) -> None:
        """Drop those of ours that are not named, by either of their names."""
        kept = {each for name in names for each in (name, other_attempt(name))}
        self.divisions = {name: each for name, each in self.divisions.items() if name in kept}

    def text(self) -> str:
        """Return the file.

        Raises:
            BrokenFileError: it has become larger than a ConfigMap may be.
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
        raise BrokenFileError(f"it is no YAML: {str(error).splitlines()[0]}") from None
    found = content.get("mig-configs", {}) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise BrokenFileError("it has no mapping mig-configs")
    return found


def _division(entry: Any) -> Division | None:
    """Return what an entry of ours divides a node into; None where somebody has changed it."""
    try:
        cards = msgspec.convert(entry, list[_Entry])
    except msgspec.ValidationError:
        return None
    if [card.devices for card in cards] != [[index] for index in range(len(cards))]:
        return None
    if any(sum(card.mig_devices.values()) > MAX_INSTANCES for card in cards):
        return None
    return tuple(_names(card.mig_devices) for card in cards)


def _names(devices: Mapping[str, int]) -> Geometry:
    return geometry(name for name, count in devices.items() for _ in range(count))


def _entry(division: Iterable[Geometry]) -> list[dict[str, Any]]:
    return [
        {
            "devices": [index],
            "mig-enabled": True,
            "mig-devices": {name: names.count(name) for name in dict.fromkeys(names)},
        }
        for index, names in enumerate(division)
    ]
