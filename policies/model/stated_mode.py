"""The mode that a policy states by its `resources`, before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modes.mode import DEFAULT_MODE
from modes.registry import CLAIM_MODE

AUTO: Any = "auto"
"""The mode of policies that leave it to the chart."""


def stated_mode(resources: Mapping[str, Any]) -> Any:
    """Return the mode of a policy's `resources`, or what its other keys are for; AUTO if it states none.

    `fraction-injector.statedMode` in the chart's templates is the same rule.
    """
    mode = resources.get("mode") or AUTO
    if mode == AUTO and (resources.get("driver") or resources.get("custom")):
        return CLAIM_MODE
    if mode == AUTO and (resources.get("name") or resources.get("prefer")):
        return DEFAULT_MODE
    return mode
