"""Checks a process's own TLS port, as a client sees it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from service.log import get_logger

_SECONDS_BETWEEN_CHECKS = 5.0
_SECONDS_UNTIL_SECOND_CHECK = 1.0
_HANDSHAKE_SECONDS = 5.0
PERIOD_SECONDS = _SECONDS_BETWEEN_CHECKS + _SECONDS_UNTIL_SECOND_CHECK + 2 * _HANDSHAKE_SECONDS
"""How long it takes from one check to the next where no handshake comes about."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 what a socket is bound to, not what it binds


class TlsSelfCheck:
    """Shakes hands with the own port every 5 s, whoever asks for readiness and however often.

    Two failures in a row count. A check needs no place of its own where all connections are taken: like any
    newcomer it gets that of an idle one.
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
        """`trust` gives the newest context of a client that trusts our CA; None while nothing is served."""
        host, self._port = address
        self._host = _ANY.get(host, host)
        self._name = name
        self._trust = trust
        self._seconds_between_checks = seconds_between_checks
        self._handshake_seconds = handshake_seconds
        self._log = get_logger("port")
        self.missing: str | None = None
        """Why no client can shake hands; None where it can, or where that is not known."""

    async def watch(self, turned: Callable[[], None] = lambda: None) -> None:
        """Check again and again, until cancelled; call `turned` before each check."""
        while True:
            turned()
            await asyncio.sleep(self._seconds_between_checks)
            error = await self.check_handshake()
            if error is not None:
                await asyncio.sleep(min(_SECONDS_UNTIL_SECOND_CHECK, self._seconds_between_checks))
                error = await self.check_handshake()
            if error is not None and self.missing is None:
                self._log.error("our own port gives no handshake", port=self._port, error=error)
            self.missing = error

    async def check_handshake(self) -> str | None:
        """Why no handshake comes about, if none does."""
        context = self._trust()
        if context is None:
            return None
        opening = asyncio.open_connection(self._host, self._port, ssl=context, server_hostname=self._name)
        try:
            async with asyncio.timeout(self._handshake_seconds):
                _, writer = await opening
        except TimeoutError:
            return f"{self._host}:{self._port} gave no handshake within {self._handshake_seconds} s"
        except OSError as error:
            return f"{self._host}:{self._port} gave no handshake for {self._name}: {error}"
        writer.transport.abort()
        return None
