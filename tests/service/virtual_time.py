"""An event loop with real sockets whose time passes only while nobody has anything to do.

So minutes of idleness pass at once, to their full length, and no machine is too busy to be on time.
"""

import asyncio
import selectors
from contextlib import contextmanager

from testbed.listening import listening

_LOOK_SECONDS = 0.1
"""Of real time, until the next look at sockets while an answer is awaited."""


class _Selector(selectors.DefaultSelector):
    """Looks at sockets; where none is ready, lets the time pass for which it was to wait."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.awaited = 0

    def select(self, timeout=None):
        if self.awaited and (timeout is None or timeout > 0):
            return super().select(_LOOK_SECONDS)
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(0, timeout)
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.now

    def pass_time(self, seconds):
        """So long was the loop busy."""
        self._virtual.now += seconds

    @contextmanager
    def time_stands(self):
        """What the kernel has not delivered yet takes no time."""
        self._virtual.awaited += 1
        try:
            yield
        finally:
            self._virtual.awaited -= 1


async def until(condition):
    """Wait for what other tasks do; no time passes."""
    while not condition():  # noqa: ASYNC110 nobody sets an event for what is seen from outside
        await asyncio.sleep(0)


async def until_passes(condition):
    """Wait for what comes with time."""
    while not condition():  # noqa: ASYNC110 nobody sets an event for what is seen from outside
        await asyncio.sleep(1)


def run(test, **limits):
    """Run a test of a listener, which is given the listener and its loop."""

    async def main():
        async with listening(**limits) as served:
            await test(served, asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
