"""What a review changes of an object, as lines of YAML."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from typing import Any

import yaml

CONTEXT = 2
"""Unchanged lines around a change."""
WIDTH = 2**16
"""Longer texts would be folded."""


class _Dumper(yaml.SafeDumper):
    """Without anchors, which nobody writes into a manifest."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 the base class's signature
        return True


def changed_lines(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield the changed lines with `+` and `-`, those around them, and `...` between."""
    # The first two lines name files.
    for line in islice(unified_diff(yaml_lines(before), yaml_lines(after), lineterm="", n=CONTEXT), 2, None):
        yield "..." if line.startswith("@@") else line


def yaml_lines(found: dict[str, Any]) -> list[str]:
    """Return an object as YAML."""
    return yaml.dump(found, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH).splitlines()
