"""Names that were found harmless, in a set: one lookup for all names of a pod.

Callers ask the set itself first, which almost always holds all names: `names.issuperset(found) or
names.learn(found)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

MAX_CHARACTERS = 128
"""Of a name that is kept."""
MAX_NAMES = 1024


class HarmlessNames(set[str]):
    """The names found harmless so far. Bounded in number and length, because pod authors write them."""

    __slots__ = ("_matters",)

    def __init__(self, matters: Callable[[str], bool]) -> None:
        """Start empty; `matters` tells whether a rule has to look at a name."""
        super().__init__()
        self._matters = matters

    def learn(self, names: Collection[str]) -> bool:
        """Return whether no rule has to look at any of the names, and keep them if so."""
        if any(map(self._matters, names)):
            return False
        if len(self) + len(names) > MAX_NAMES:
            self.clear()
        self.update([name for name in names if len(name) <= MAX_CHARACTERS][:MAX_NAMES])
        return True
