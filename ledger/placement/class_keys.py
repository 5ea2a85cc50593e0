"""Which labels nodes are told apart by: those that pods name most, a few, and only as long as they do.

Pods' authors choose what they name. Whatever that is, answers stay the same: classes only make them quick.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_CLASS_KEYS = 8
PODS_OF_A_WINDOW = 1024
"""Decisions after which a label that none of them named is forgotten."""
_MAX_COUNTED = 64
"""Labels that are counted; a new one takes the place, and the count, of the one that was named least."""


class ClassKeys:
    """The labels of classes, and how often pods named any."""

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = ()
        self._refused: set[str] = set()
        """Labels that would make too many classes; tried again in the next window."""
        self._counts: dict[str, int] = {}
        self.pods = 0
        """That were noted in this window."""

    @property
    def is_window_over(self) -> bool:
        """Whether it is time to forget what was named in it no longer."""
        return self.pods >= PODS_OF_A_WINDOW

    def note(self, named: Iterable[str]) -> None:
        """Count one pod that gets a place, and the labels of nodes that it names."""
        self.pods += 1
        for key in named:
            if key not in self._counts and len(self._counts) >= _MAX_COUNTED:
                least = min(self._counts, key=self._counts.__getitem__)
                self._counts[key] = self._counts.pop(least)
            self._counts[key] = self._counts.get(key, 0) + 1

    def wanted(self, named: Iterable[str]) -> list[str]:
        """Return which of the labels that a pod names classes could be told apart by from now on."""
        free = MAX_CLASS_KEYS - len(self.keys)
        if free <= 0:
            return []
        return sorted([key for key in named if key not in self.keys and key not in self._refused])[:free]

    def add(self, key: str) -> None:
        """Tell classes apart by one more."""
        self.keys = (*self.keys, key)

    def refuse(self, key: str) -> None:
        """Note that a label makes too many classes."""
        self.keys = tuple([each for each in self.keys if each != key])
        self._refused.add(key)

    def forget(self) -> bool:
        """At the end of a window, drop what pods named no longer; say whether that is anything.

        Where all places are taken, the one that is named least makes room for one named twice as often.
        """
        kept = [key for key in self.keys if self._counts.get(key)]
        if len(kept) >= MAX_CLASS_KEYS:
            least = min(kept, key=self._counts.__getitem__)
            others = [
                count for key, count in self._counts.items() if key not in kept and key not in self._refused
            ]
            if max(others, default=0) > 2 * self._counts[least]:
                kept.remove(least)
        changed, self.keys = len(kept) < len(self.keys), tuple(kept)
        self.pods = 0
        self._counts.clear()
        self._refused.clear()
        return changed
