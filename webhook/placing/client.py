"""Client of the placement API: finds the controller's leader."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from ledger.messages import (
    MAX_POLICIES_BYTES,
    Answers,
    Batch,
    DenialReport,
    NotLeading,
    PoliciesReply,
)
from webhook.placing.http_client import Address, ClientConnection

MAX_HOPS = 3
"""Replicas to try for one request before giving up."""
MAX_REPORT_REPLY = 4096
"""Maximum bytes of the reply to a report."""

_encode = msgspec.json.Encoder().encode
_answers = msgspec.json.Decoder(Answers)
_policies = msgspec.json.Decoder(PoliciesReply)
_not_leading = msgspec.json.Decoder(NotLeading)


class NoAnswerError(OSError):
    """The leader could not be reached."""


Identity = Callable[[], ssl.SSLContext | None]
"""Returns the newest client context; None while there is no certificate."""


class ControllerClient:
    """Sends batches to the leader over one persistent connection."""

    def __init__(self, url: str, identity: Identity) -> None:
        """Raises ValueError if `url` is not `https://HOST:PORT`."""
        self._service = Address.of(url)
        self._identity = identity
        self._leader = self._service
        self._connection: ClientConnection | None = None
        self._shown: ssl.SSLContext | None = None
        """The context of the connection; a new certificate ends the connection."""

    async def place(self, batch: Batch) -> Answers:
        """Return the leader's results for a batch.

        Raises:
            OSError: the leader could not be reached; the connection is dropped.
            ValueError: the reply is invalid.
        """
        return _answers.decode(await self._post("/v1/placements", _encode(batch)))

    async def report(self, denials: DenialReport) -> None:
        """Report denials to the leader.

        Raises:
            OSError: the leader could not be reached.
            ValueError: the reply is invalid.
        """
        await self._post("/v1/denials", _encode(denials), MAX_REPORT_REPLY)

    async def policies(self) -> PoliciesReply:
        """Get the last good policy set from any replica, on a separate connection.

        Raises:
            OSError: no replica can be reached, or the one reached has no set.
            ValueError: the reply is invalid.
        """
        connection = await self.stream()
        try:
            reply = await connection.request("GET", "/v1/policies", max_bytes=MAX_POLICIES_BYTES)
        finally:
            connection.close()
        if reply.status != HTTPStatus.OK:
            raise NoAnswerError(f"the controller answered {reply.status}: {reply.body[:200]!r}")
        return _policies.decode(reply.body)

    async def stream(self) -> ClientConnection:
        """Open a separate connection to any replica.

        Raises:
            OSError: no replica can be reached.
        """
        return await ClientConnection.open(self._service, self._service.host, self._context())

    def drop(self) -> None:
        """Forget connection and leader: start again at the Service."""
        self._leader = self._service
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _post(self, path: str, body: bytes, max_bytes: int | None = None) -> bytes:
        """Return the leader's reply; raises as `place` does."""
        for _ in range(MAX_HOPS):
            kept = self._connection
            connection = await self._connected()
            try:
                reply = await connection.request("POST", path, body, max_bytes)
            except OSError:
                if connection is not kept:
                    raise
                # The server closes idle connections. A request that arrives twice is decided twice.
                self.drop()
                continue
            if reply.status == HTTPStatus.OK:
                return reply.body
            if reply.status != HTTPStatus.CONFLICT:
                raise NoAnswerError(f"the controller answered {reply.status}: {reply.body[:200]!r}")
            self._follow(_not_leading.decode(reply.body))
        raise NoAnswerError(f"no leader among {MAX_HOPS} replicas")

    def _follow(self, reply: NotLeading) -> None:
        self.drop()
        if reply.leader is None:
            raise NoAnswerError("no replica leads")
        self._leader = Address.of(reply.leader)

    async def _connected(self) -> ClientConnection:
        context = self._context()
        if self._connection is not None and self._shown is not context:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = await ClientConnection.open(self._leader, self._service.host, context)
            self._shown = context
        return self._connection

    def _context(self) -> ssl.SSLContext:
        context = self._identity()
        if context is None:
            raise NoAnswerError("no client certificate has been read yet")
        return context
