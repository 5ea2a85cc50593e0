"""How hard tests try: a part in every run, all of it by turns.

Property tests and tests of long regimes find more the longer they run. `make test-long` tries those of one
folder in full, each day those of another; `REGIME=ledger` names the folder.
"""

import os
from datetime import date

PARTS = (
    "agent",
    "agent_nodes",
    "baremetal",
    "bench",
    "control_plane",
    "controller",
    "ledger",
    "real_nodes",
    "webhook",
)
"""Of the long tier: folders of `tests/`, `tests/long/` and `tests/programs/`."""
CHOSEN = os.environ.get("REGIME", "")


def examples(count: int) -> int:
    """Return how many examples a property test takes that has `count` in a long run."""
    return count if CHOSEN else max(5, count // 4)


def by_turns(regime: str, *, usual: int, full: int) -> int:
    """Return how much a test of `tests/{regime}` tries: `full` where REGIME names that folder, else `usual`.

    Raises:
        ValueError: REGIME, or the test, names no folder whose tests take turns.
    """
    if regime not in PARTS or CHOSEN not in ("", *PARTS):
        raise ValueError(f"REGIME is {CHOSEN!r} for {regime!r}: use {', '.join(PARTS)}")
    return full if regime == CHOSEN else usual


def whose_day(day: date) -> str:
    """Return the folder that is tried in full on a day: each in its turn."""
    return PARTS[day.toordinal() % len(PARTS)]
