"""A limiter that is a preset but for its init container: another image, another user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies.loading.strict_yaml import Document
from policies.model.problems import PolicyError, dotted

EXTENDS = "extends"
OWN_KEYS = ("kind", "name", EXTENDS, "needs", "initContainer")
"""What may stand beside `extends`: all else decides what the limit is, and comes from the preset."""


def extended(document: Document, preset: Document) -> Document:
    """Return the document with everything of the preset's that it leaves out.

    Raises:
        PolicyError: it holds a key that only a whole limiter may hold.
    """
    own = document.data
    if refused := [key for key in own if key not in OWN_KEYS]:
        rule = f"cannot stand beside {EXTENDS}: write needs and initContainer only, or a whole limiter"
        raise PolicyError(document.problem((key,), rule, shown=dotted((key,))) for key in refused)
    content = {**preset.data, **own}
    if isinstance(part := own.get("initContainer"), Mapping):
        content["initContainer"] = _init_container(preset.data["initContainer"], part)
    return replace(document, data=content)


def _init_container(preset: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    merged = {**preset, **own}
    if isinstance(variables := own.get("env"), Mapping):
        merged["env"] = {**preset.get("env", {}), **variables}
    return merged
