"""Checks a process's own TLS port as a client would."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from service.log import get_logger

_SECONDS_BETWEEN_CHECKS = 5.0
_SECONDS_UNTIL_SECOND_CHECK = 1.0
_HANDSHAKE_SECONDS = 5.0
PERIOD_SECONDS = _SECONDS_BETWEEN_CHECKS + _SECONDS_UNTIL_SECOND_CHECK + 2 * _HANDSHAKE_SECONDS
"""Maximum time from one check to the next, if no handshake succeeds."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 compares addresses, binds none


class TlsSelfCheck:
    """Does a TLS handshake with its own port every 5 s, independent of readiness requests.

    Only two failures in a row count. A check needs no reserved connection: when the limit is reached, it
    replaces an idle one, like any new connection.
    """

    def __init__(
        self,
        address: tuple[str, int],
        name: str,
        trust: Callable[[], ssl.SSLContext | None],
        *,
        seconds_between_checks: float = _SECONDS_BETWEEN_CHECKS,
        handshake_seconds: float = _HANDSHAKE_SECONDS,
    ) -> None:
        """`trust` returns the newest client context that trusts our CA; None while nothing is served."""
        host, self._port = address
        self._host = _ANY.get(host, host)
        self._name = name
        self._trust = trust
        self._seconds_between_checks = seconds_between_checks
        self._handshake_seconds = handshake_seconds
        self._log = get_logger("port")
        self.missing: str | None = None
        """Why no client can do a handshake; None if one can, or if that is unknown."""

    async def watch(self, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Check repeatedly until cancelled; call `heartbeat` before each check."""
        while True:
            heartbeat()
            await asyncio.sleep(self._seconds_between_checks)
            error = await self.check_handshake()
            if error is not None:
                await asyncio.sleep(min(_SECONDS_UNTIL_SECOND_CHECK, self._seconds_between_checks))
                error = await self.check_handshake()
            if error is not None and self.missing is None:
                self._log.error("TLS handshake with our own port failed", port=self._port, error=error)
            self.missing = error

    async def check_handshake(self) -> str | None:
        """Return why the handshake failed; None if it succeeded."""
        context = self._trust()
        if context is None:
            return None
        opening = asyncio.open_connection(self._host, self._port, ssl=context, server_hostname=self._name)
        try:
            async with asyncio.timeout(self._handshake_seconds):
                _, writer = await opening
        except TimeoutError:
            return f"{self._host}:{self._port} completed no TLS handshake in {self._handshake_seconds} s"
        except OSError as error:
            return f"{self._host}:{self._port} failed the TLS handshake for {self._name}: {error}"
        writer.transport.abort()
        return None
