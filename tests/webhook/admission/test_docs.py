"""docs/admission.md has a place for every rule."""

import re
from pathlib import Path

import webhook.admission

FOLDER = Path(webhook.admission.__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "admission.md"


def test_every_module_of_a_rule_is_in_the_table_and_every_named_module_exists():
    named = set(re.findall(r"`(\w+\.py)`", PAGE.read_text()))
    assert named == {file.name for file in FOLDER.glob("*.py")} - {"__init__.py"}
