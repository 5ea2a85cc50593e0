"""The cards of this node that other drivers of Dynamic Resource Allocation offer too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from http import HTTPStatus

from agent.gpu import GpuSourceError
from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.resource_slices import ResourceSlices
from agent.parts import Agent
from agent.recurring_error import RecurringError
from service.log import get_logger

_TWICE = "DRA driver {} offers it too: remove one of the two from this node"


class OtherDrivers:
    """Reads their ResourceSlices."""

    def __init__(self, slices: ResourceSlices, agent: Agent) -> None:
        self._slices = slices
        self._state, self._source = agent.state, agent.source
        log = get_logger("other drivers")
        self._failed = RecurringError(log.warning, "cannot see what DRA drivers offer", ApiServerError)

    def reasons(self) -> dict[str, str]:
        """Return why a card must be withdrawn, by UUID; call it from a thread.

        Raises:
            ApiServerError: the slices cannot be read.
        """
        buses = {}
        for gpu in self._state.gpus:
            with contextlib.suppress(GpuSourceError):  # its health shows it
                if (bus := self._source.identity_of(gpu.uuid).bus) is not None:
                    buses[gpu.uuid] = bus
        return {uuid: _TWICE.format(by) for uuid, by in self._slices.others(self._state.gpus, buses).items()}

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
