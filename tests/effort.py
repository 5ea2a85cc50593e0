"""How hard property tests try: with `QUICK_TESTS=1`, as in `make test-unit`, a twentieth of the examples."""

import os

QUICK = bool(os.environ.get("QUICK_TESTS"))


def examples(count: int) -> int:
    """Return how many examples a property test takes that has `count` in a whole run."""
    return max(5, count // 20) if QUICK else count
