"""Bounds on the connections, time and memory that a listener gives to clients, whoever they are."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one listener."""

    connections: int = 128
    """Open ones, handshakes included. Past it one of the client address that holds the most is closed."""
    head_bytes: int = 32 * KIB
    """Request line and headers."""
    headers: int = 100
    handshake_seconds: float = 10
    head_seconds: float = 2
    """From the first byte of a request to the end of its head."""
    body_seconds: float = 2
    """From then on to the end of its body. Head and body together take less than an API server waits for
    an answer, by the chart's `webhook.timeoutSeconds` of 5: so it gets the 408 instead of a timeout."""
    idle_seconds: float = 120
    """The API server keeps idle connections 90 s; a shorter time of ours would race its next request."""
    unread_seconds: float = 10
    """For a client to read what it was sent."""
    last_seconds: float = 2
    """For what is being received when the process ends: an API server sends a body at once."""
    closing_seconds: float = 1
    """For a client to answer the end of its TLS connection; many never do."""
    held_bytes: int = 24 * MIB
    """Of requests that are not answered yet, over all connections of a process."""
    small_bytes: int = 64 * KIB
    """Requests up to this size are not counted: nobody's large body shuts out a small one."""
