"""How long pure code may run in the event loop: what takes longer is interrupted, and decided by a worker.

A timer of the system counts the CPU of this process and interrupts it every few milliseconds of that, so that
waiting for a CPU costs nobody his review. A piece of work that two of these interrupts meet is ended by an
exception in its midst. One call of a function in C is not: bodies that such a call takes long for go to a
worker at once (webhook/worker/limits.py).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPT_SECONDS = 0.005
"""CPU between two interrupts. The system rounds it up to its own tick, mostly 4 ms."""
LEAST_SECONDS = 0.004
"""CPU of the main thread between the interrupts that end a piece of work: others may have used the rest."""
NEW = 0.0
"""`since` of work that no interrupt has met yet."""


class OverrunError(BaseException):
    """The work took too long. No Exception, so that no rule that expects errors goes on after it."""


class InlineBudget:
    """Ends work that takes too long while `kept` is entered; otherwise, as in tests, it never does.

    Around work that may be ended anywhere, because it leaves nothing behind but caches:

        budget.since = NEW
        try:
            ...
        finally:
            budget.since = None
    """

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since: float | None = None
        """CPU seconds of the main thread at the first interrupt of what runs; None where nothing may end.

        A plain attribute: a call for each review would cost more than all the rest.
        """

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Interrupt the main thread every few milliseconds of CPU; nothing happens in any other thread."""
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
        """End what ran at the last interrupt too; again and again, as code in C may drop an exception."""
        if self.since is None:
            return
        now = time.thread_time()
        if self.since == NEW:
            self.since = now
        elif now - self.since >= LEAST_SECONDS:
            raise OverrunError
