"""Time limits of a process that may get little CPU: counted in ticks of its event loop."""

import asyncio

import pytest

from webhook.placing import running_time
from webhook.placing.running_time import running_timeout


@pytest.fixture(autouse=True)
def every_turn(monkeypatch):
    """Make each tick due at once: what counts is their number."""
    monkeypatch.setattr(running_time, "TICK_SECONDS", 1e-9)


def ticks_until(event, number):
    """A function for each tick that sets an event at a numbered one, and the list of ticks so far."""
    ticks = []

    def tick():
        ticks.append(len(ticks) + 1)
        if len(ticks) == number:
            event.set()

    return tick, ticks


def test_a_limit_is_over_after_its_ticks_and_not_before():
    async def main():
        tick, ticks = ticks_until(asyncio.Event(), 0)
        with pytest.raises(TimeoutError):
            async with running_timeout(20e-9, tick):
                await asyncio.Event().wait()
        return ticks

    assert asyncio.run(main()) == list(range(1, 21))


def test_what_comes_before_the_last_tick_is_in_time_however_long_the_ticks_took():
    async def main():
        answer = asyncio.Event()
        tick, ticks = ticks_until(answer, 18)
        async with running_timeout(20e-9, tick):
            await answer.wait()
        seen = len(ticks)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(ticks) == seen
        return seen

    assert asyncio.run(main()) < 20


def test_an_error_inside_is_what_is_raised():
    async def main():
        async with running_timeout(20e-9):
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(main())
