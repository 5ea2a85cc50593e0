"""Selects the cards of a node that are divided into slices; the others stay whole, for another device plugin.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from agent.gpu import Gpu
from modes.gpu_kinds import is_pattern, matches

_INDEX = re.compile(r"[0-9]{1,3}", re.ASCII)
_UUID = re.compile(r"GPU-[-0-9A-Za-z]{1,64}", re.ASCII)


def is_divided(gpu: Gpu, cards: Collection[str]) -> bool:
    """Whether a card is named, by index, UUID or model; without names every card is."""
    return not cards or any(_is_named(gpu, name) for name in cards)


def is_card_name(text: str) -> bool:
    """Whether a text is an index such as "0", a UUID such as "GPU-...", or a pattern of models."""
    return _INDEX.fullmatch(text) is not None or _UUID.fullmatch(text) is not None or is_pattern(text)


def _is_named(gpu: Gpu, name: str) -> bool:
    if _INDEX.fullmatch(name):
        return int(name) == gpu.index
    # GPU feature discovery writes models into node labels in the same form.
    return name == gpu.uuid or matches(name, gpu.model.replace(" ", "-"))
