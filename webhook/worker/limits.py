"""What the event loop leaves to workers, and what a worker may use."""

from __future__ import annotations

INLINE_BYTES = 2**18
"""Of a review that the event loop decides itself: one call of the decoder cannot be interrupted.

Of all pods of bench/oversized.py the dearest takes 5 ms to decode at this size; at 1 MiB 21 ms, and with all
its fields 34 ms (2.6 GHz EPYC). Real pods have 3 to 50 kB.
"""
JSON_SECONDS_PER_BYTE = 60e-9
"""Of json.loads at worst: of 3 MiB of objects with a key each it took 58 ns on that machine."""
TIMES_JSON, MORE_SECONDS = 3, 0.05
"""CPU that a worker may use: so many times what json.loads of the review takes at worst, and so much more."""
MEMORY_BYTES = 96 * 2**20
"""That a worker may allocate beside what this process has: of those pods none takes more than 64 MiB."""
NICENESS = 10
"""A worker gets a tenth of what the event loop does where both want a CPU."""
AT_ONCE = 2
MAX_WAITING = 32
"""Reviews that wait for a worker."""
MAX_WAITING_BYTES = 12 * 2**20
"""Of all of them: half of what service/limits.py lets a process hold of requests."""
DECIDE_SECONDS = 3.0
"""From the whole review received to its answer, waiting included; an API server waits 5 s."""
MAX_MESSAGE_BYTES = 2**20
"""Of what a worker says: a patch is at most 700,000 bytes (webhook/admission/sizes.py)."""


def cpu_seconds(size: int) -> float:
    """Return how much CPU a worker may use for a review of so many bytes."""
    return MORE_SECONDS + TIMES_JSON * JSON_SECONDS_PER_BYTE * size
