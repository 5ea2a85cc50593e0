"""Long tests take turns: which are tried in full, and on which day."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests import effort
from tests.effort import PARTS, by_turns, examples, whose_day

TESTS = Path(__file__).parent
CALL = re.compile(r"\bby_turns\(\s*\"(\w+)\"")


@pytest.mark.parametrize(("chosen", "tried", "count"), [("", 1, 25), ("ledger", 9, 100), ("webhook", 1, 100)])
def test_a_folder_is_tried_in_full_where_regime_names_it(monkeypatch, chosen, tried, count):
    monkeypatch.setattr(effort, "CHOSEN", chosen)
    assert (by_turns("ledger", usual=1, full=9), examples(100)) == (tried, count)


@pytest.mark.parametrize(("regime", "chosen"), [("ledger", "leger"), ("leger", "")])
def test_a_folder_that_takes_no_turn_is_an_error(monkeypatch, regime, chosen):
    monkeypatch.setattr(effort, "CHOSEN", chosen)
    with pytest.raises(ValueError, match=r"use agent, .*, webhook$"):
        by_turns(regime, usual=1, full=9)


def test_each_folder_has_its_day():
    begun = date(2026, 12, 28)
    days = [whose_day(begun + timedelta(number)) for number in range(len(PARTS))]
    assert sorted(days) == sorted(PARTS)


def test_a_test_takes_the_turns_of_its_own_folder():
    files = set(TESTS.rglob("test_*.py")) - {Path(__file__)}
    calls = [(file, part) for file in files for part in CALL.findall(file.read_text())]
    assert len(calls) > 20
    assert [(file, part) for file, part in calls if part not in file.relative_to(TESTS).parts[:-1]] == []
