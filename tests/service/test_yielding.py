"""Long walks give way to the event loop: batches by turns, and slices of time."""

import asyncio

from service.yielding import TIME_SLICE_SECONDS, CooperativeYield, TimeSlice


class Steps:
    """Counts the steps of the running loop."""

    def __init__(self):
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self):
        self.number += 1
        self._loop.call_soon(self._next)


async def test_walks_alternate_so_that_a_step_has_one_batch_of_one_of_them():
    steps, yielding, seen = Steps(), CooperativeYield(), []

    async def walk(name):
        seen.extend([(steps.number, name, list(items)) async for items in yielding.batches(range(7), 3)])

    await asyncio.gather(walk("a"), walk("b"))
    assert len({number for number, _, _ in seen}) == len(seen) == 6
    assert [items for _, name, items in seen if name == "b"] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [name for _, name, _ in sorted(seen)] == ["a", "b"] * 3


async def test_a_time_slice_lets_others_run_once_it_has_lasted():
    steps, now = Steps(), [0.0]
    time_slice = TimeSlice(lambda: now[0])
    before = steps.number
    await time_slice.pause()
    at_once = steps.number
    now[0] += TIME_SLICE_SECONDS
    await time_slice.pause()
    assert (at_once - before, steps.number - at_once) == (0, 1)
