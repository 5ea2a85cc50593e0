"""Requests to the Kubernetes API server: the kubernetes package's authentication and transport, raw bytes.

Objects are read into structs of the fields needed; the package's typed models cost ten times more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""To accept: an object's metadata, without what it holds."""
MAX_CONNECTIONS = 32
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 30.0

TRANSPORT_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""What a request raises when no whole answer came."""
CHANGED_MEANWHILE = {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}
"""Answers to a patch that tests what was read before: the object is another one by now, or gone."""


class NoApiServerError(Exception):
    """There is nothing to tell where the API server is, or how to be known to it."""


class ApiError(Exception):
    """The API server refused a request; the text is its message."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
        self.retry_after = retry_after
        """Seconds that the server asks to be left alone, where it says so."""


class _Status(msgspec.Struct):
    """What the API server says of an error."""

    message: str = ""


class ApiServer:
    """One API server, asked with the rights of a service account or of a kubeconfig's user."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.connection_pool_maxsize = MAX_CONNECTIONS
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)

    async def request(  # noqa: PLR0913 each is a part of an HTTP request
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        content_type: str = JSON,
        seconds: float = REQUEST_SECONDS,
        accept: str = JSON,
    ) -> bytes:
        """Ask once and return the body.

        Raises:
            ApiError: the answer's status is not a success.
            OSError, TimeoutError, aiohttp.ClientError: no whole answer within `seconds`.
        """
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        response = await self._send(method, _url(path, query), body, limit, content_type, accept)
        data = await response.read()
        if not response.ok:
            _refuse(response, data)
        return data

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str | int], silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Ask for an endless answer and give its lines; silence for so long is a TimeoutError.

        Raises:
            ApiError: the answer's status is not a success.
            OSError, TimeoutError, aiohttp.ClientError: the connection broke.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        response = await self._send("GET", _url(path, query), None, limit)
        try:
            if not response.ok:
                _refuse(response, await response.read())
            yield _lines(response)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._rest.close()

    async def _send(  # noqa: PLR0913, PLR0917 each is a part of an HTTP request
        self,
        method: str,
        url: str,
        body: Any,
        limit: aiohttp.ClientTimeout,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": accept, "Content-Type": content_type}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        send: Any = self._rest.request  # without types in the package
        answer = await send(method, f"{self._configuration.host}{url}", headers, body, _request_timeout=limit)
        response: aiohttp.ClientResponse = answer.response
        return response


def _url(path: str, query: Mapping[str, str | int] | None) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


async def connect(kubeconfig: Path | None, context: str | None = None) -> ApiServer:
    """Find the API server by a kubeconfig, or by the service account of the pod that this runs in.

    `context` is one of the kubeconfig; None takes its current one.

    Raises:
        NoApiServerError: neither tells.
    """
    configuration = Configuration()
    load: Any = load_kube_config if kubeconfig is not None else load_incluster_config
    try:
        if kubeconfig is not None:
            await load(
                str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
            )
        else:
            load(configuration)
    except (ConfigException, OSError) as error:
        hint = "run in a pod with a service account, or pass --kubeconfig FILE"
        raise NoApiServerError(f"no way to the API server: {error}; {hint}") from error
    return ApiServer(configuration)


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str | None = None) -> AsyncIterator[ApiServer]:
    """Connect as `connect` does, and close all connections at the end.

    Raises:
        NoApiServerError: there is nothing to tell where the API server is.
    """
    api = await connect(kubeconfig, context)
    try:
        yield api
    finally:
        await api.close()


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines of any length: an object may be larger than aiohttp's own reader of lines allows."""
    parts: list[bytes] = []
    async for chunk in response.content.iter_any():
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for part in rest:
            if line := b"".join(parts):
                yield line
            parts = [part]
    if line := b"".join(parts):
        yield line
    # The server ends a watch between two lines; let others run before the next one begins.
    await asyncio.sleep(0)


def _refuse(response: aiohttp.ClientResponse, data: bytes) -> NoReturn:
    try:
        message = msgspec.json.decode(data, type=_Status).message
    except msgspec.MsgspecError:
        message = data[:200].decode("utf-8", "replace")
    after = response.headers.get("Retry-After", "")
    raise ApiError(
        response.status, message or str(response.reason), float(after) if after.isdecimal() else None
    )
