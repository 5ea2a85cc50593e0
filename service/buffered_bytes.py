"""The sum of what a process holds of requests that are not answered yet."""

from __future__ import annotations

from typing import Protocol


class BufferHolder(Protocol):
    """A connection that can be made to give up its request."""

    def shed(self) -> None:
        """Answer the request with 503 and release what is held of it."""


class BufferedBytes:
    """Keeps the sum under a limit: the request that is being received for the longest gives way.

    An API server sends a body at once. Whoever sends slowly, or never ends, is the first to go.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes."""
        self._limit = limit
        self._sizes: dict[BufferHolder, int] = {}
        self._receiving: dict[BufferHolder, None] = {}
        """In the order in which they began."""
        self.total = 0
        """Bytes held now."""

    def hold(self, holder: BufferHolder, size: int, *, whole: bool) -> None:
        """Note that `holder` holds `size` bytes of one request; a `whole` one is only waiting for its answer.

        May shed other holders, or this one.
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
        """Forget a request that is answered, or gone."""
        self.total -= self._sizes.pop(holder, 0)
        self._receiving.pop(holder, None)
