"""How long pure code may run in the event loop: what takes longer is interrupted, and a worker decides it.

A system timer counts the CPU time of this process and interrupts it every few milliseconds of CPU, so waiting
for a CPU does not count. An exception ends work that is interrupted twice. It cannot end a single call of a C
function: bodies for which such a call takes long go to a worker at once (webhook/worker/limits.py).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPT_SECONDS = 0.005
"""CPU between two interrupts. The system rounds it up to its own tick, usually 4 ms."""
LEAST_SECONDS = 0.004
"""CPU of the main thread between the interrupts that end work: other threads may have used the rest."""
NEW = 0.0
"""`since` of work that has not been interrupted yet."""


class OverrunError(BaseException):
    """The work took too long. Not an Exception, so that no rule catches it and continues."""


class InlineBudget:
    """Ends work that takes too long inside `enforced`; outside of it, as in tests, it does nothing.

    Use it around work that can end at any point because it changes nothing except caches:

        budget.since = NEW
        try:
            ...
        finally:
            budget.since = None
    """

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since: float | None = None
        """Main thread's CPU seconds at the first interrupt of the current work; None if it must not be ended.

        A plain attribute: a call for each review would cost more than everything else.
        """

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Interrupt the main thread every few milliseconds of CPU; in any other thread, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGPROF, self._interrupt)
        signal.setitimer(signal.ITIMER_PROF, INTERRUPT_SECONDS, INTERRUPT_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """End the work that was also interrupted last time; repeat, as C code may drop an exception."""
        if self.since is None:
            return
        now = time.thread_time()
        if self.since == NEW:
            self.since = now
        elif now - self.since >= LEAST_SECONDS:
            raise OverrunError
