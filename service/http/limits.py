"""Limits on the connections, time and memory that a listener gives to clients."""

from __future__ import annotations

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
