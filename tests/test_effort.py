"""Long tests take turns: which are tried in full, and on which day."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.effort import ALL, REGIMES, is_full, whose_day

TESTS = Path(__file__).parent
CALL = re.compile(r"\bby_turns\(\s*\"(\w+)\"")


@pytest.mark.parametrize(
    ("chosen", "full"), [("", []), ("ledger", ["ledger"]), ("webhook", ["webhook"]), (ALL, list(REGIMES))]
)
def test_a_folder_is_tried_in_full_where_regime_names_it_or_all(chosen, full):
    assert [each for each in REGIMES if is_full(each, chosen)] == full


@pytest.mark.parametrize(("regime", "chosen"), [("ledger", "leger"), ("leger", ""), ("leger", ALL)])
def test_a_folder_that_takes_no_turn_is_an_error(regime, chosen):
    with pytest.raises(ValueError, match=r"use agent, .*, all$"):
        is_full(regime, chosen)


def test_each_folder_has_its_day():
    begun = date(2026, 12, 28)
    days = [whose_day(begun + timedelta(number)) for number in range(len(REGIMES))]
    assert sorted(days) == sorted(REGIMES)


def test_every_folder_that_takes_turns_has_such_tests_of_its_own():
    found = {
        (file.relative_to(TESTS).parts[0], regime)
        for file in TESTS.rglob("*.py")
        for regime in CALL.findall(file.read_text())
    }
    assert found == {(regime, regime) for regime in REGIMES}
