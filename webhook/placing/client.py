"""Client of the placement API: finds the leading replica of the controller."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from ledger.messages import MAX_POLICIES_BYTES, Answers, Batch, HandedPolicies, NotLeading
from webhook.placing.http_client import Address, ClientConnection

MAX_HOPS = 3
"""Replicas asked for one batch, before it is given up."""

_encode = msgspec.json.Encoder().encode
_answers = msgspec.json.Decoder(Answers)
_policies = msgspec.json.Decoder(HandedPolicies)
_not_leading = msgspec.json.Decoder(NotLeading)


class NoAnswerError(OSError):
    """No replica that leads could be asked."""


Identity = Callable[[], ssl.SSLContext | None]
"""Gives the newest client context; None while there is no certificate."""


class ControllerClient:
    """Sends batches to the leader, on one connection that is kept."""

    def __init__(self, url: str, identity: Identity) -> None:
        """Raises ValueError when `url` is not `https://HOST:PORT`."""
        self._service = Address.of(url)
        self._identity = identity
        self._leader = self._service
        self._connection: ClientConnection | None = None
        self._shown: ssl.SSLContext | None = None
        """The context of the connection: it ends with the certificate."""

    async def place(self, batch: Batch) -> Answers:
        """Return the leader's results for a batch.

        Raises:
            OSError: nobody could be asked; the connection is dropped.
            ValueError: what came is no answer.
        """
        body = _encode(batch)
        for _ in range(MAX_HOPS):
            kept = self._connection
            connection = await self._connected()
            try:
                reply = await connection.request("POST", "/v1/placements", body)
            except OSError:
                if connection is not kept:
                    raise
                # The other side ends idle connections. An ask may come twice: it is decided anew.
                self.drop()
                continue
            if reply.status == HTTPStatus.OK:
                return _answers.decode(reply.body)
            if reply.status != HTTPStatus.CONFLICT:
                raise NoAnswerError(f"the controller answered {reply.status}: {reply.body[:200]!r}")
            self._follow(_not_leading.decode(reply.body))
        raise NoAnswerError(f"no leader among {MAX_HOPS} replicas")

    async def policies(self) -> HandedPolicies:
        """Ask any replica for the last good policy set, on a connection of its own.

        Raises:
            OSError: none can be reached, or the one that was has no set to give.
            ValueError: what came is no answer.
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
        """Open a connection of its own to any replica.

        Raises:
            OSError: none can be reached.
        """
        return await ClientConnection.open(self._service, self._service.host, self._context())

    def drop(self) -> None:
        """Forget connection and leader: begin again at the Service."""
        self._leader = self._service
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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
