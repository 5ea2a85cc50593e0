"""What malloc keeps of a flood goes back to the system."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from service.http.free_memory import FreeMemory

pytestmark = pytest.mark.slow

MIB = 1 << 20
CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("seen", "given"),
    [
        ([60, 91], 0),
        ([60, 93, 61], 1),
        ([60, 93, 90, 120], 1),
        ([60, 93, 90, 125, 91], 2),
        ([60, 30, 63, 31], 1),
        ([60, 200, 190, *[190] * 8, 62, *[62] * 100], 2),
        ([60, 200, 199, *[199] * 15], 1),
        ([60, 200, 199, *[199] * 16, 60], 2),
    ],
    ids=[
        "little",
        "much",
        "what stays in use counts no more",
        "much again",
        "less than at first",
        "what a flood used is free after it",
        "in vain: later",
        "in vain: but again",
    ],
)
def test_memory_is_given_back_after_much_growth_since_the_last_time(seen, given):
    sizes, times = iter(seen), []
    memory = FreeMemory(lambda: next(sizes) * MIB, lambda: times.append(None))
    while True:
        try:
            memory.check()
        except StopIteration:
            break
    assert len(times) == given


FLOOD = """
from service.http.free_memory import give_back, resident

blocks = [bytearray(size) for _ in range(1000) for size in (100_000, 1000)]
kept = blocks[1::2]
del blocks
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a malloc that cannot give back")
def test_free_blocks_between_used_ones_go_back():
    # In a process of its own: how malloc laid out what other tests left behind decides how much is free.
    ended = subprocess.run(
        [sys.executable, "-c", FLOOD], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) > 50 * MIB
