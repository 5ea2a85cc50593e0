"""The cards of this node that other drivers of Dynamic Resource Allocation offer too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.resource_slices import ResourceSlices
from agent.recurring_error import RecurringError
from agent.state import AgentState
from service.log import get_logger

_TWICE = "DRA driver {} offers it too: remove one of the two from this node"


class OtherDrivers:
    """Reads their ResourceSlices."""

    def __init__(self, slices: ResourceSlices, state: AgentState) -> None:
        self._slices = slices
        self._state = state
        log = get_logger("other drivers")
        self._failed = RecurringError(log.warning, "cannot see what DRA drivers offer", ApiServerError)

    def reasons(self) -> dict[str, str]:
        """Return why a card must be withdrawn, by UUID; call it from a thread.

        Raises:
            ApiServerError: the slices cannot be read.
        """
        return {uuid: _TWICE.format(by) for uuid, by in self._slices.others(self._state.gpus).items()}

    async def look(self) -> Mapping[str, str] | None:
        """Return `reasons`; None, with a line in the log, if the slices cannot be read."""
        with self._failed:
            try:
                return await asyncio.to_thread(self.reasons)
            except ApiServerError as error:
                if error.status == HTTPStatus.NOT_FOUND:  # Kubernetes before 1.34 does not serve them
                    return {}
                raise
        return None
