"""What malloc keeps of a flood goes back to the system."""

import pytest

from service.http.free_memory import FreeMemory

MIB = 1 << 20


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
