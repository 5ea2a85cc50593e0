"""The changes that one reader has not seen yet: each name once, however often it changes."""

from __future__ import annotations

import asyncio


class Changes:
    """Names of nodes that changed since one reader last looked."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._some = asyncio.Event()
        self.backlog = True
        """Whether the waiting pods have changed."""
        self.follows_cards = True
        """Whether the reader also shows cards of DRA drivers, which change with each claim."""
        self.follows_uses = False
        """Whether the reader also shows what pods use, which changes all the time."""

    def mark(self, name: str | None) -> None:
        """Record that a node has changed, by its name; None means that the waiting pods have changed."""
        if name is None:
            self.backlog = True
        else:
            self._names[name] = None
        self._some.set()

    async def wait(self) -> None:
        """Wait until something has changed."""
        await self._some.wait()

    def take(self) -> list[str]:
        """Return the nodes that have changed, and forget them."""
        names = list(self._names)
        self._names.clear()
        self._some.clear()
        return names
