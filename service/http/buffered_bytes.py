"""The total size of the unanswered requests that a process holds."""

from __future__ import annotations

from collections.abc import Callable


class BufferedBytes:
    """Keeps the total under a limit by dropping the request that has been arriving for the longest time.

    An API server sends a body at once. A client that sends slowly or never ends is dropped first.
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
