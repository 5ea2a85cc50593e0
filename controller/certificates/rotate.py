"""Asks the controller to renew a certificate early: it issues a new one for a Secret without its key."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from cluster.kube_client import MERGE_PATCH, ApiError, ApiServer
from cluster.object_reader import StoredObject


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int = 0


class _Lease(msgspec.Struct):
    spec: _Spec


async def has_leader(api: ApiServer, namespace: str, lease: str, now: datetime) -> bool:
    """Return whether a controller holds the Lease.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the Lease cannot be read.
    """
    path = (
        f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases/{quote(lease, safe='')}"
    )
    try:
        spec = msgspec.json.decode(await api.request("GET", path), type=_Lease).spec
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    if not spec.holder_identity or spec.renew_time is None:
        return False
    return now < spec.renew_time + timedelta(seconds=spec.lease_duration_seconds)


async def drop_key(api: ApiServer, namespace: str, secret: str, key: str) -> None:
    """Remove the private key from a Secret, so that its certificate no longer counts.

    Raises:
        ApiError: 409 if somebody changed the Secret meanwhile.
        OSError, TimeoutError, aiohttp.ClientError: the API server does not answer.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(secret, safe='')}"
    version = msgspec.json.decode(await api.request("GET", path), type=StoredObject).metadata.resource_version
    body = {"metadata": {"resourceVersion": version}, "data": {key: None}}
    await api.request("PATCH", path, body=body, content_type=MERGE_PATCH)
