"""The labels that divide nodes into classes: the few that pods name most.

Users choose the labels that their pods name. Classes only make answers faster; they never change them.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_CLASS_KEYS = 8
PODS_OF_A_WINDOW = 1024
"""Decisions after which a label that none of them named is dropped."""
_MAX_COUNTED = 64
"""Labels that are counted; a new one replaces the least named one, and inherits its count."""


class ClassKeys:
    """The labels of classes, and how often pods name each label."""

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = ()
        self._refused: set[str] = set()
        """Labels that would make too many classes; tried again in the next window."""
        self._counts: dict[str, int] = {}
        self.pods = 0
        """Pods counted in this window."""

    @property
    def is_window_over(self) -> bool:
        """Whether it is time to drop labels that pods no longer name."""
        return self.pods >= PODS_OF_A_WINDOW

    def note(self, named: Iterable[str]) -> None:
        """Count one placed pod, and the node labels that it names."""
        self.pods += 1
        for key in named:
            if key not in self._counts and len(self._counts) >= _MAX_COUNTED:
                least = min(self._counts, key=self._counts.__getitem__)
                self._counts[key] = self._counts.pop(least)
            self._counts[key] = self._counts.get(key, 0) + 1

    def wanted(self, named: Iterable[str]) -> list[str]:
        """Return the labels that a pod names and that classes could use from now on."""
        free = MAX_CLASS_KEYS - len(self.keys)
        if free <= 0:
            return []
        return sorted([key for key in named if key not in self.keys and key not in self._refused])[:free]

    def add(self, key: str) -> None:
        """Divide classes by one more label."""
        self.keys = (*self.keys, key)

    def refuse(self, key: str) -> None:
        """Record that a label makes too many classes."""
        self.keys = tuple([each for each in self.keys if each != key])
        self._refused.add(key)

    def forget(self) -> bool:
        """At the end of a window, drop labels that pods no longer name; return whether any was dropped.

        If all places are taken, the least named label makes room for one that is named twice as often.
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
