"""How long a starting webhook waits for the controller's nodes before it serves without them."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.log import get_logger

CONTROLLER_WAIT_SECONDS = 20.0
"""A new leader takes about 8 s to get the Lease of a dead one; then it must answer."""


class ControllerWait:
    """A readiness condition: the nodes are known, or the wait is over.

    A webhook that knows no nodes denies every labelled pod whose policy has no `assume`, so the webhooks that
    it replaces keep serving during the wait. A missing controller must not keep webhooks from restarting:
    pods under a policy with `assume` are placed without it, and a denial says more than a missing endpoint.
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

    def missing(self) -> str | None:
        """Return what is missing, or None if the wait is over; the wait starts with the first call."""
        now, is_known = self._clock(), self._knows_nodes()
        if self._ends is None:
            self._ends = now + self._seconds
        if not self._over and not is_known and now >= self._ends:
            get_logger("webhook").warning(
                "serving before the controller has answered", waited_seconds=self._seconds
            )
        self._over = self._over or is_known or now >= self._ends
        if self._over:
            return None
        return f"the controller has not sent its nodes yet: serving without it after {self._seconds:g} s"
