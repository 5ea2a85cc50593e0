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
        self._held: dict[BufferHolder, tuple[int, bool]] = {}
        """Bytes, and whether the request is whole; in the order in which they started."""

    @property
    def total(self) -> int:
        """Bytes held now."""
        return sum(size for size, _ in self._held.values())

    def hold(self, holder: BufferHolder, size: int, *, whole: bool) -> None:
        """Record that `holder` holds `size` bytes of one request; a `whole` one only waits for its answer.

        May drop the requests of other holders, or this one.
        """
        self._held[holder] = size, whole
        while holder in self._held and self.total > self._limit:
            oldest = next((each for each, (_, is_whole) in self._held.items() if not is_whole), holder)
            self.release(oldest)
            oldest.shed()

    def release(self, holder: BufferHolder) -> None:
        """Forget a request that was answered or lost."""
        self._held.pop(holder, None)
