"""What happens in each step of an event loop, counted."""

import asyncio
from collections import Counter


class Steps:
    """Counts what happens in each step of the running loop."""

    def __init__(self):
        self.number = 0
        self.counts = Counter()
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self):
        self.number += 1
        self._loop.call_soon(self._next)

    def count(self, function):
        """Make a function count its calls."""

        def counting(*arguments):
            self.counts[self.number] += 1
            return function(*arguments)

        return counting

    @property
    def most(self):
        return max(self.counts.values(), default=0)

    @property
    def total(self):
        return self.counts.total()
