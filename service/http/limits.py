"""Limits on the connections, time and memory that a listener gives to clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
SMALL_BYTES = 64 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one listener."""

    connections: int = 128
    """Open connections, including handshakes. Beyond it, the address with the most connections loses one."""
    head_bytes: int = 32 * KIB
    """Request line and headers."""
    headers: int = 100
    """Including those after a chunked body."""
    handshake_seconds: float = 10
    head_seconds: float = 2
    """From the first byte of a request to the end of its head."""
    body_seconds: float = 2
    """From then on to the end of its body. Head and body together take less than the 5 s that an API server
    waits for an answer (the chart's `webhook.timeoutSeconds`), so it gets the 408 and not a timeout."""
    idle_seconds: float = 120
    """The API server keeps idle connections for 90 s; a shorter time here would race its next request."""
    unread_seconds: float = 10
    """For a client to read its answer."""
    closing_seconds: float = 1
    """For a client to answer TLS's close; many never do."""
    held_bytes: int = 24 * MIB
    """Of unanswered requests, over all connections of a process."""
    small_bytes: int = SMALL_BYTES
    """Requests up to this size are not counted, so a large body never displaces a small one."""


class BufferedBytes:
    """The total size of the unanswered requests that a process holds.

    The request that has been arriving for the longest time is dropped when the limit is reached. An API
    server sends a body at once; a client that sends slowly or never ends is dropped first.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes."""
        self._limit = limit
        self._held: dict[Callable[[], None], tuple[int, bool]] = {}
        """Bytes, and whether the request is whole; in the order in which they started."""

    @property
    def total(self) -> int:
        """Bytes held now."""
        return sum(size for size, _ in self._held.values())

    def hold(self, shed: Callable[[], None], size: int, *, whole: bool) -> None:
        """Record `size` bytes of one request; a `whole` one only waits for its answer.

        May drop other requests, or this one. `shed` drops this one; it also identifies it.
        """
        self._held[shed] = size, whole
        while shed in self._held and self.total > self._limit:
            oldest = next((each for each, (_, is_whole) in self._held.items() if not is_whole), shed)
            self.release(oldest)
            oldest()

    def release(self, shed: Callable[[], None]) -> None:
        """Forget a request that was answered or lost."""
        self._held.pop(shed, None)
