"""Time limits of a process that may get little CPU: counted in ticks of its event loop."""

import asyncio
import contextlib

import pytest

from webhook.placing import running_time
from webhook.placing.running_time import running_timeout


@pytest.fixture(autouse=True)
def every_turn(monkeypatch):
    """Make each tick due at once: what counts is their number."""
    monkeypatch.setattr(running_time, "TICK_SECONDS", 1e-9)


def test_a_limit_is_over_after_its_ticks_and_not_before():
    async def main():
        steps = []
        with contextlib.suppress(TimeoutError):
            async with running_timeout(20e-9):
                while True:
                    steps.append(None)
                    await asyncio.sleep(0)
        return len(steps)

    assert asyncio.run(main()) >= 20


def test_an_error_inside_is_what_is_raised():
    async def main():
        async with running_timeout(20e-9):
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(main())
