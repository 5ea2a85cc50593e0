"""The policies that the API server stores, for commands that compare with them or count by them."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cluster.kube_client import ApiServer
from policies.loading.loader import parse_policies
from policies.loading.policy_set import PolicySet


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


async def read_stored_policies(api: ApiServer, namespace: str, config_map: str) -> PolicySet:
    """Read the policies in a ConfigMap.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: it cannot be read.
        PolicyError: the policies are broken.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(config_map, safe='')}"
    data = msgspec.json.decode(await api.request("GET", path), type=_ConfigMap).data
    return parse_policies({name: text.encode() for name, text in data.items()})
