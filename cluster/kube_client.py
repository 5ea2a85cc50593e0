"""Requests to the Kubernetes API server.

Bodies are raw bytes. Objects are decoded into structs with only the needed fields; the typed models of the
kubernetes package cost ten times more.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from cluster.endpoint import Endpoint, of_service_account
from service.background import beat

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Accept header for only the metadata of an object."""
MAX_CONNECTIONS = 32
READ_BYTES = 2**21
"""Buffer of a connection: one event of a watch can have a MiB."""
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 30.0
MAX_ANSWER_BYTES = 16 * 2**20
"""Bytes of an answer, and of an event of a watch. JSON writes some characters sixfold: an object that etcd
accepts by default, of at most 1.5 MiB, has at most 9 MiB."""

TRANSPORT_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""Exceptions of a request without a complete answer."""
CHANGED_MEANWHILE = {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}
"""Statuses of a patch that tests the version it read: the object has changed, or was deleted."""


def transport_problem(error: Exception) -> str:
    """Return an exception of TRANSPORT_ERRORS as a sentence: who does not answer, why, and what to do."""
    if isinstance(error, TooLargeError):
        return str(error)
    server, todo = "the API server", "check its address, and that it can be reached from here"
    if isinstance(error, aiohttp.ClientConnectorError):
        server = f"{error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        todo = "check certificate-authority and tls-server-name of the kubeconfig"
    return f"{server} does not answer ({transport_cause(error)}): {todo}"


def transport_cause(error: Exception) -> str:
    """Return why there is no complete answer, in the words of the system."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, TimeoutError):
        return "timeout"
    if isinstance(cause, aiohttp.ClientResponseError):
        is_of_proxy = isinstance(cause, aiohttp.ClientHttpProxyError)
        answer = f"the proxy answered {cause.status} {cause.message}"
        return answer if is_of_proxy else "what answers is no HTTP server"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {cause.verify_message.rstrip('.')}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {str(cause.reason).replace('_', ' ').lower()}"
    if isinstance(cause, OSError) and cause.errno and cause.strerror:
        is_errno = cause.errno > 0 and not cause.strerror.startswith("[SSL:")  # negative: of getaddrinfo
        return os.strerror(cause.errno) if is_errno else cause.strerror
    return str(cause) or type(cause).__name__


class ApiError(Exception):
    """The API server rejected a request; the text is its message."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
        self.retry_after = retry_after
        """Seconds of the Retry-After header; None without it."""


class TooLargeError(OSError):
    """An answer, or an event of a watch, is larger than MAX_ANSWER_BYTES. It was not read to its end."""

    def __init__(self) -> None:
        super().__init__(f"the answer is larger than {MAX_ANSWER_BYTES // 2**20} MiB")


class _Status(msgspec.Struct):
    """The error's message in the API server's answer."""

    message: str = ""


class ApiServer:
    """One API server, used with the rights of a service account or of a kubeconfig's user."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None

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
        """Send a request and return the body of the answer.

        Each request is a heartbeat of the task that sends it: a restart makes no API server faster.

        Raises:
            ApiError: the answer's status is not a success.
            TooLargeError: the answer is larger than MAX_ANSWER_BYTES.
            OSError, TimeoutError, aiohttp.ClientError: no complete answer within `seconds`.
        """
        beat()
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        response = await self._send(method, _url(path, query), body, limit, content_type, accept)
        async with response:
            data = await _read(response)
        if not response.ok:
            _refuse(response, data)
        return data

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str | int], silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET request, and yield the lines of its endless answer.

        Raises:
            ApiError: the answer's status is not a success.
            TooLargeError: a line is longer than MAX_ANSWER_BYTES.
            OSError, TimeoutError, aiohttp.ClientError: the connection broke, or was silent for too long.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        response = await self._send("GET", _url(path, query), None, limit)
        try:
            if not response.ok:
                _refuse(response, await _read(response))
            yield _lines(response)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

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
        if authorization := await self._endpoint.authorization():
            headers["Authorization"] = authorization
        return await self._connections().request(
            method,
            f"{self._endpoint.url}{url}",
            headers=headers,
            data=None if body is None else msgspec.json.encode(body),
            timeout=limit,
            proxy=self._endpoint.proxy,
            server_hostname=self._endpoint.tls_name,
        )

    def _connections(self) -> aiohttp.ClientSession:
        """Return the pool of connections; it belongs to the event loop of the first request."""
        if self._session is None:
            tls = self._endpoint.tls
            connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=tls if tls is not None else True)
            self._session = aiohttp.ClientSession(
                connector=connector, trust_env=True, read_bufsize=READ_BYTES
            )
        return self._session


def _url(path: str, query: Mapping[str, str | int] | None) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str | None = None) -> AsyncIterator[ApiServer]:
    """Connect with a kubeconfig, or with the service account of the pod that this process runs in.

    `context` is a context of the kubeconfig; None means its current one.

    Raises:
        NoApiServerError: the configuration does not work.
    """
    endpoint = await _of_kubeconfig(kubeconfig, context) if kubeconfig else of_service_account()
    api = ApiServer(endpoint)
    try:
        yield api
    finally:
        await api.close()


async def _of_kubeconfig(file: Path, context: str | None) -> Endpoint:
    # Here and not above: the package takes 20 MB of every process that loads it, and pods never need it.
    from cluster.kubeconfig import of_kubeconfig  # noqa: PLC0415

    return await of_kubeconfig(file, context)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        _check_size(data)
    return bytes(data)


def _check_size(data: bytearray) -> None:
    if len(data) > MAX_ANSWER_BYTES:
        raise TooLargeError


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines longer than those of aiohttp's own line reader: each is one object."""
    line = bytearray()
    async for chunk in response.content.iter_any():
        head, *rest = chunk.split(b"\n")
        line += head
        _check_size(line)
        for part in rest:
            if line:
                yield bytes(line)
            line = bytearray(part)
    if line:
        yield bytes(line)
    # The server can end a watch between two lines; let other tasks run before the next one begins.
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
