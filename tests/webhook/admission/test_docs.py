"""Every rule has a place in docs/reference/admission.md, and a test file of its own name."""

import re
from pathlib import Path

import webhook.admission

FOLDER = Path(webhook.admission.__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "reference" / "admission.md"
RULES = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
WITHOUT = {
    "alias_words": "what aliases have in common; test_alias_of_kai.py and _hami.py go through it",
    "other_systems": "names only; test_alias_of_kai.py and test_hami_cards.py have each",
    "pod": "fields only; tests/webhook/support/field_values.py has values of each",
    "validate": "the order of the rules; each rule's own tests go through it",
}
"""Modules that are no rule by themselves, and what tries them."""


def test_every_module_of_a_rule_is_in_the_table_and_every_named_module_exists():
    assert set(re.findall(r"`(\w+)\.py`", PAGE.read_text())) == RULES


def test_every_rule_is_tried_in_a_file_of_its_name():
    tried = {file.stem.removeprefix("test_") for file in Path(__file__).parent.glob("test_*.py")}
    assert RULES - tried == WITHOUT.keys()
