"""Limiters that extend a preset: they change only its init container, such as image or user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies.loading.strict_yaml import Document
from policies.model.problems import PolicyError

EXTENDS = "extends"
OWN_KEYS = ("kind", "name", EXTENDS, "needs", "initContainer")
"""Keys allowed together with `extends`; all others define the limit, and come from the preset."""


def extended(document: Document, preset: Document) -> Document:
    """Return the document with all missing keys of the preset.

    Raises:
        PolicyError: it has a key that only a complete limiter may have.
    """
    own = document.data
    if refused := [key for key in own if key not in OWN_KEYS]:
        rule = f"is not allowed with {EXTENDS}: set only needs and initContainer, or write a complete limiter"
        raise PolicyError(document.problem((key,), rule) for key in refused)
    content = {**preset.data, **own}
    if isinstance(part := own.get("initContainer"), Mapping):
        content["initContainer"] = _init_container(preset.data["initContainer"], part)
    return replace(document, data=content)


def _init_container(preset: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    merged = {**preset, **own}
    if isinstance(variables := own.get("env"), Mapping):
        merged["env"] = {**preset.get("env", {}), **variables}
    return merged
