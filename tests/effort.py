"""How hard tests try: all of it by turns, some of it in every run.

Property tests and tests of long regimes (churn of many seeds, kills again and again) find more the longer
they run. Each run tries a part of them. `REGIME=ledger` tries those of `tests/ledger` in full, `REGIME=all`
every one; `python -m tests.effort` prints the folder whose day it is, which CI takes. With `QUICK_TESTS=1`,
as in `make test-unit`, property tests take a twentieth of their examples.
"""

import os
from datetime import UTC, date, datetime

QUICK = bool(os.environ.get("QUICK_TESTS"))
REGIMES = ("agent", "baremetal", "control_plane", "controller", "ledger", "real_nodes", "webhook")
"""Folders of `tests/` in which some tests take turns."""
ALL = "all"
CHOSEN = os.environ.get("REGIME", "")


def examples(count: int) -> int:
    """Return how many examples a property test takes that has `count` in a whole run."""
    return max(5, count // 20) if QUICK else count


def by_turns(regime: str, *, usual: int, full: int) -> int:
    """Return how much a test of `tests/{regime}` tries: `full` where REGIME names that folder, else `usual`.

    Security properties take no turns: every run tries them in full.
    """
    return full if is_full(regime, CHOSEN) else usual


def is_full(regime: str, chosen: str) -> bool:
    """Whether a folder is tried in full, by what REGIME says.

    Raises:
        ValueError: REGIME, or the test, names no folder whose tests take turns.
    """
    if regime not in REGIMES or chosen not in ("", ALL, *REGIMES):
        raise ValueError(f"REGIME is {chosen!r} for {regime!r}: use {', '.join((*REGIMES, ALL))}")
    return chosen in (regime, ALL)


def whose_day(day: date) -> str:
    """Return the folder that CI tries in full on a day: each in its turn."""
    return REGIMES[day.toordinal() % len(REGIMES)]


if __name__ == "__main__":
    print(whose_day(datetime.now(UTC).date()))  # noqa: T201 - for .ci/run
