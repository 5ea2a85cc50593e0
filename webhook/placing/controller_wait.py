"""How long a starting webhook waits for a controller that says what it knows, before it serves without."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.log import get_logger

CONTROLLER_WAIT_SECONDS = 20.0
"""A new leader needs about 8 s to take the Lease of one that died, and then to answer."""


class ControllerWait:
    """A condition of readiness: the nodes are known, or have been waited for long enough.

    A webhook that knows no node denies every labelled pod whose policy assumes nothing, so that the ones that
    it replaces serve on meanwhile. A controller that stays away must not keep webhooks from restarting: pods
    under a policy with `assume` are placed without it, and a denial says more than a Service without pods.
    """

    def __init__(
        self,
        knows_nodes: Callable[[], bool],
        seconds: float = CONTROLLER_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._knows_nodes = knows_nodes
        self._seconds = seconds
        self._clock = clock
        self._ends: float | None = None
        self._over = False
        self._log = get_logger("webhook")

    def missing(self) -> str | None:
        """Return what is waited for, or None where the wait is over; it begins with the first call."""
        if self._over:
            return None
        now = self._clock()
        if self._ends is None:
            self._ends = now + self._seconds
        if self._knows_nodes():
            self._over = True
        elif now >= self._ends:
            self._over = True
            self._log.warning("serving before the controller has answered", waited_seconds=self._seconds)
        if self._over:
            return None
        return f"the controller has not told its nodes yet: serving without after {self._seconds:g} s"
