"""Every rule has a place in docs/reference/admission.md."""

import re
from pathlib import Path

import webhook.admission

FOLDER = Path(webhook.admission.__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "reference" / "admission.md"
RULES = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}


def test_every_module_of_a_rule_is_in_the_table_and_every_named_module_exists():
    assert set(re.findall(r"`(\w+)\.py`", PAGE.read_text())) == RULES
