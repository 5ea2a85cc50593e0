"""Client of the controller's API: finds the leader, and follows the stream of any replica."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
import msgspec

from ledger.messages import MAX_POLICIES_BYTES, Answers, Batch, DenialReport, NotLeading, PoliciesReply
from webhook.placing.running_time import running_timeout

MAX_HOPS = 3
"""Replicas to try for one request before giving up."""
MAX_REPORT_REPLY = 4096
"""Maximum bytes of the reply to a report."""
MAX_ANSWERS = 64 * 2**20
"""Maximum bytes of the reply to a batch; an answer has a few hundred."""
KEEP_SECONDS = 60.0
"""An idle connection is kept so long."""

_encode = msgspec.json.Encoder().encode
_answers = msgspec.json.Decoder(Answers)
_policies = msgspec.json.Decoder(PoliciesReply)
_not_leading = msgspec.json.Decoder(NotLeading)


class NoAnswerError(OSError):
    """The leader could not be reached."""


Identity = Callable[[], ssl.SSLContext | None]
"""Returns the newest client context; None while there is no certificate."""


class ControllerClient:
    """Talks to the controller's replicas over mTLS.

    The name in a certificate is separate from the address: a standby redirects us to the leader's address,
    and the server there must still prove that it is the Service.
    """

    def __init__(self, url: str, identity: Identity) -> None:
        """Raises ValueError if `url` is not `https://HOST:PORT`."""
        self._service = _checked(url)
        self._name = urlsplit(url).hostname
        self._identity = identity
        self._leader = self._service
        self._session: aiohttp.ClientSession | None = None

    async def place(self, batch: Batch) -> Answers:
        """Return the leader's results for a batch.

        Raises:
            OSError: the leader could not be reached.
            ValueError: the reply is invalid.
        """
        return _answers.decode(await self._post("/v1/placements", _encode(batch), MAX_ANSWERS))

    async def report(self, denials: DenialReport) -> None:
        """Report denials to the leader.

        Raises:
            OSError: the leader could not be reached.
            ValueError: the reply is invalid.
        """
        await self._post("/v1/denials", _encode(denials), MAX_REPORT_REPLY)

    async def policies(self) -> PoliciesReply:
        """Get the last good policy set from any replica.

        Raises:
            OSError: no replica can be reached, or the one reached has no set.
            ValueError: the reply is invalid.
        """
        reply = await self._send("GET", f"{self._service}/v1/policies", b"", MAX_POLICIES_BYTES)
        return _policies.decode(_body(*reply))

    async def stream(
        self, path: str, connect_seconds: float, silence_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Request an endless reply of any replica and yield its lines.

        Raises:
            OSError: no replica can be reached, or the connection failed.
            TimeoutError: there was no reply for `connect_seconds`, or nothing for `silence_seconds`, in which
            this process ran.
        """
        with _no_answer():
            async with running_timeout(connect_seconds):
                response = await self._open("GET", f"{self._service}{path}", b"")
            try:
                _body(response.status, b"")
                parts, rest = response.content.iter_any(), b""
                while True:
                    async with running_timeout(silence_seconds):
                        part = await anext(parts, b"")
                    if not part:
                        raise NoAnswerError(f"the reply to {path} has ended")
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield line
            finally:
                response.close()

    def drop(self) -> None:
        """Forget the leader: start again at the Service."""
        self._leader = self._service

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, path: str, body: bytes, max_bytes: int) -> bytes:
        """Return the leader's reply; raises as `place` does."""
        for hop in range(MAX_HOPS):
            try:
                status, reply = await self._send("POST", self._leader + path, body, max_bytes)
            except OSError:
                if hop:
                    raise
                # The server closes idle connections. A request that arrives twice is decided twice.
                self.drop()
                continue
            if status != HTTPStatus.CONFLICT:
                return _body(status, reply)
            leader = _not_leading.decode(reply).leader
            if leader is None:
                raise NoAnswerError("no replica leads")
            self._leader = _checked(leader)
        raise NoAnswerError(f"no leader among {MAX_HOPS} replicas")

    async def _send(self, method: str, url: str, body: bytes, max_bytes: int) -> tuple[int, bytes]:
        with _no_answer():
            async with await self._open(method, url, body) as response:
                reply = bytearray()
                async for part in response.content.iter_any():
                    reply += part
                    if len(reply) > max_bytes:
                        path = urlsplit(url).path
                        raise NoAnswerError(f"the reply to {path} is over {max_bytes} bytes")
                return response.status, bytes(reply)

    async def _open(self, method: str, url: str, body: bytes) -> aiohttp.ClientResponse:
        context = self._identity()
        if context is None:
            raise NoAnswerError("no client certificate has been read yet")
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=KEEP_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout())
        return await self._session.request(
            method,
            url,
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=context,
            server_hostname=self._name,
            allow_redirects=False,
        )


def _checked(url: str) -> str:
    """Return `https://HOST:PORT`.

    Raises:
        ValueError: it is not such a URL.
    """
    # What is no port raises ValueError too.
    with suppress(ValueError):
        parts = urlsplit(url)
        rest = parts.path.strip("/") + parts.query + parts.fragment
        if parts.scheme == "https" and parts.hostname and parts.port != 0 and not rest:
            return url.rstrip("/")
    raise ValueError(f'"{url}" is not an address of a controller: write https://HOST:PORT')


def _body(status: int, reply: bytes) -> bytes:
    if status != HTTPStatus.OK:
        raise NoAnswerError(f"the controller answered {status}: {reply[:200]!r}")
    return reply


@contextmanager
def _no_answer() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientError as error:
        raise NoAnswerError(str(error)) from error
