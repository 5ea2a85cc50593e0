"""What an admin or a user reads to write instead of a label's text that is not in the table."""

import pytest

from policies.model.label_advice import label_advice
from tests.policies.support import policy_set


def advice(text, keys=""):
    found = policy_set(default=f"kind: Policy\nname: default\n{keys}\n")
    return label_advice(text, found.resolve("default", None, None))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0.5", ' (did you mean "0.500"?)'),
        ("0.3", ""),
        ("half", ""),
        ("1/2", ' (did you mean "0.500"?)'),
        ("1/3", ""),
        ("50%", ' (did you mean "0.500"?)'),
        ("1/0", ""),
        ("0,5", ' (did you mean "0.500"?)'),
        (".5", ' (did you mean "0.500"?)'),
        ("", ""),
        ("0.5" + "0" * 61, ""),
    ],
)
def test_the_table_is_named_and_the_text_of_the_same_amount(text, hint):
    assert advice(text) == f"use 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875{hint}"


def test_a_long_table_is_shortened():
    table = ", ".join(f'"{number}": {8 * number}' for number in range(1, 12))
    assert advice("0.5", f"fractions: {{{table}}}") == "use 1, 2, 3, 4, 5, 6, ..., 11"


def test_an_empty_table_has_no_advice():
    assert advice("0.5", "fractions: {}") is None
