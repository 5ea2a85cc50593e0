"""Which reviews the event loop leaves to workers, and what a worker may use."""

from __future__ import annotations

INLINE_BYTES = 2**18
"""Maximum size of a review that the event loop decides itself: one decoder call cannot be interrupted.

Of all pods of bench/oversized.py the most expensive takes 5 ms to decode at this size; at 1 MiB 21 ms, and
with all its fields 34 ms (2.6 GHz EPYC). Real pods have 3 to 50 kB.
"""
JSON_SECONDS_PER_BYTE = 60e-9
"""Worst case of json.loads: 3 MiB of objects with one key each took 58 ns per byte on that machine."""
TIMES_JSON, MORE_SECONDS = 3, 0.05
"""CPU that a worker may use: this multiple of json.loads' worst case for the review, plus this constant."""
MEMORY_BYTES = 96 * 2**20
"""Memory that a worker may allocate beyond its parent's: none of those pods takes more than 64 MiB."""
NICENESS = 10
"""A worker gets a tenth of the event loop's CPU time if both want it."""
AT_ONCE = 2
MAX_WAITING = 32
"""Reviews that wait for a worker."""
MAX_WAITING_BYTES = 12 * 2**20
"""Of all of them: half of the request bytes that service/http/limits.py allows a process."""
DECIDE_SECONDS = 4.5
"""From receiving the whole review to its answer, including waiting; an API server waits 5 s. A controller may
take 3.5 s of it (webhook/placing/controller.py)."""
MAX_MESSAGE_BYTES = 2**20
"""Of a worker's message: a patch has at most 700,000 bytes (webhook/admission/sizes.py)."""


def cpu_seconds(size: int) -> float:
    """Return the CPU seconds that a worker may use for a review of `size` bytes."""
    return MORE_SECONDS + TIMES_JSON * JSON_SECONDS_PER_BYTE * size
