"""The total size of the unanswered requests that a process holds."""

from __future__ import annotations

from typing import Protocol


class BufferHolder(Protocol):
    """A connection that can drop its request."""

    def shed(self) -> None:
        """Answer the request with 503 and release its data."""


class BufferedBytes:
    """Keeps the total under a limit by dropping the request that has been arriving for the longest time.

    An API server sends a body at once. A client that sends slowly or never ends is dropped first.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes."""
        self._limit = limit
        self._sizes: dict[BufferHolder, int] = {}
        self._receiving: dict[BufferHolder, None] = {}
        """In the order in which they started."""
        self.total = 0
        """Bytes held now."""

    def hold(self, holder: BufferHolder, size: int, *, whole: bool) -> None:
        """Record that `holder` holds `size` bytes of one request; a `whole` one only waits for its answer.

        May drop the requests of other holders, or this one.
        """
        self.total += size - self._sizes.get(holder, 0)
        self._sizes[holder] = size
        if whole:
            self._receiving.pop(holder, None)
        else:
            self._receiving[holder] = None
        while self.total > self._limit:
            oldest = next(iter(self._receiving), holder)
            self.release(oldest)
            oldest.shed()
            if oldest is holder:
                return

    def release(self, holder: BufferHolder) -> None:
        """Forget a request that was answered or lost."""
        self.total -= self._sizes.pop(holder, 0)
        self._receiving.pop(holder, None)
