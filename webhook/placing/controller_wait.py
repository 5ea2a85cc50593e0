"""How long a starting webhook waits for the controller's nodes before it serves without them."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.log import get_logger


class ControllerWait:
    """A readiness condition: the nodes are known, or the wait is over.

    A webhook that knows no nodes denies every labelled pod whose policy has no `assume`, so the webhooks that
    it replaces keep serving during the wait. A missing controller must not keep webhooks from restarting:
    pods under a policy with `assume` are placed without it, and a denial says more than a missing endpoint.
    """

    def __init__(
        self,
        knows_nodes: Callable[[], bool],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._knows_nodes = knows_nodes
        self._seconds = seconds
        self._clock = clock
        self._ends: float | None = None
        self._over = False

    def missing(self) -> str | None:
        """Return what is missing, or None if the wait is over; the wait starts with the first call."""
        now = self._clock()
        self._ends = now + self._seconds if self._ends is None else self._ends
        if not self._over and (self._knows_nodes() or now >= self._ends):
            self._over = True
            if not self._knows_nodes():
                text = "serving before the controller has answered"
                get_logger("webhook").warning(text, waited_seconds=self._seconds)
        if self._over:
            return None
        return f"the controller has not sent its nodes yet: serving without it after {self._seconds:g} s"
