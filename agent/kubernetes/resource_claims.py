"""Reads ResourceClaims."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.shares import RefusedError

_NOT_FOUND = 404


class ResourceClaims:
    """Reads them, from a thread.

    Args:
        api: the API server.
    """

    def __init__(self, api: ApiServerClient) -> None:
        self._api = api

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a claim; None if there is none.

        Raises:
            RefusedError: the API server does not answer.
        """
        where = f"namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
        try:
            return self._api.get(f"/apis/resource.k8s.io/v1/{where}")
        except ApiServerError as error:
            if error.status == _NOT_FOUND:
                return None
            raise RefusedError(f"the ResourceClaim cannot be read: {error}") from error
