"""Writes Events to the API server, each once; an Event that cannot be written is only logged."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from service.log import get_logger


class EventWriter:
    """Writes Events with the rights of this process."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._log = get_logger("events")

    async def write(self, manifest: Mapping[str, Any]) -> bool:
        """Write an Event; return False if one of this name exists already, or it could not be written."""
        try:
            return await self.post(manifest)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning("an Event is lost", reason=manifest["reason"], error=str(error))
            return False

    async def post(self, manifest: Mapping[str, Any]) -> bool:
        """Write an Event; return False if one of this name exists already.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: it could not be written.
        """
        namespace = manifest["metadata"]["namespace"]
        try:
            await self._api.request("POST", f"/api/v1/namespaces/{namespace}/events", body=manifest)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True
