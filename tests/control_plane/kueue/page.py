"""The YAML of docs/operating/kueue.md, as an administrator copies it."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parents[3] / "docs" / "operating" / "kueue.md"
BLOCKS = ("configuration", "queue", "pod", "jobs", "policy of jobs", "policy of flavors", "shares of claims")
"""What its blocks are, in this order."""


@cache
def block(name: str) -> str:
    found = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return dict(zip(BLOCKS, found, strict=True))[name]


def settings(name: str = "configuration") -> Any:
    """What a block of the page puts into Kueue's Configuration."""
    return yaml.safe_load(block(name))
