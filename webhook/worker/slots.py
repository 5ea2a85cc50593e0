"""Which review gets a worker next: namespaces alternate; waiting reviews are bounded in number and bytes."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec


class FullError(Exception):
    """Too many reviews already wait, most of them from this namespace."""


class _Waiting(msgspec.Struct, eq=False):
    granted: asyncio.Future[None]
    size: int


class Slots:
    """A number of slots; further callers wait. Namespaces have bounded length."""

    def __init__(self, at_once: int, max_waiting: int, max_bytes: int) -> None:
        """`max_waiting` and `max_bytes` bound all waiting reviews together."""
        self._free = at_once
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By namespace, in the order in which they are served."""

    async def acquire(self, namespace: str, size: int) -> None:
        """Wait for a slot, to be returned with `release`.

        If too many reviews wait, the namespace with the most of them loses its last one; if they hold too
        many bytes, the namespace with the most bytes does.

        Raises:
            FullError: this review was dropped.
        """
        if self._free:
            self._free -= 1
            return
        waiting = _Waiting(asyncio.get_running_loop().create_future(), size)
        self._waiting.setdefault(namespace, deque()).append(waiting)
        self._make_room()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            self._leave(namespace, waiting)
            raise

    def release(self) -> None:
        """Return a slot; it goes to the next waiting namespace, if any."""
        if not self._waiting:
            self._free += 1
            return
        namespace = next(iter(self._waiting))
        queue = self._waiting.pop(namespace)
        queue.popleft().granted.set_result(None)
        if queue:
            self._waiting[namespace] = queue

    def _make_room(self) -> None:
        while sum(map(self._number, self._waiting)) > self._max_waiting:
            self._drop(max(self._waiting, key=self._number))
        while sum(map(self._bytes, self._waiting)) > self._max_bytes:
            self._drop(max(self._waiting, key=self._bytes))

    def _number(self, namespace: str) -> int:
        return len(self._waiting[namespace])

    def _bytes(self, namespace: str) -> int:
        return sum(each.size for each in self._waiting[namespace])

    def _drop(self, namespace: str) -> None:
        self._waiting[namespace].pop().granted.set_exception(FullError())
        self._forget_empty(namespace)

    def _leave(self, namespace: str, waiting: _Waiting) -> None:
        """Forget a review whose caller has stopped waiting."""
        granted = waiting.granted
        if granted.done() and not granted.cancelled():
            if granted.exception() is None:
                self.release()
        elif namespace in self._waiting:
            self._waiting[namespace].remove(waiting)
            self._forget_empty(namespace)

    def _forget_empty(self, namespace: str) -> None:
        if not self._waiting[namespace]:
            del self._waiting[namespace]
