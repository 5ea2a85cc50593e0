"""The ConfigMap that keeps what outlives a leader: the history of use, and which idle pods were warned."""

from __future__ import annotations

import msgspec

from cluster.kube_client import MERGE_PATCH, ApiServer
from cluster.object_reader import ConfigMap

WARNINGS = "warnings.json"


class UseStore:
    """One ConfigMap, which the chart creates.

    Its methods raise ApiError, MsgspecError, OSError, TimeoutError or aiohttp.ClientError without an answer;
    it is then not known whether a text was written.
    """

    def __init__(self, api: ApiServer, namespace: str, name: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"

    async def read(self, key: str) -> str:
        """Return a text; empty if it was never written."""
        found = msgspec.json.decode(await self._api.request("GET", self._path), type=ConfigMap)
        return (found.data or {}).get(key, "")

    async def write(self, key: str, text: str) -> None:
        """Replace a text, and leave the other as it is."""
        await self._api.request("PATCH", self._path, body={"data": {key: text}}, content_type=MERGE_PATCH)
