"""A set of names that were found harmless: one lookup checks all names of a pod.

Callers query the set first, since it almost always contains all names: `names.issuperset(found) or
names.learn(found)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

MAX_CHARACTERS = 128
"""Maximum length of a name in the set."""
MAX_NAMES = 1024


class HarmlessNames(set[str]):
    """The names found harmless so far. Bounded in number and length, because authors of pods write them."""

    __slots__ = ("_matters",)

    def __init__(self, matters: Callable[[str], bool]) -> None:
        """Start empty; `matters` tells whether a rule must check a name."""
        super().__init__()
        self._matters = matters

    def learn(self, names: Collection[str]) -> bool:
        """Return whether no rule must check any of the names; add them to the set if so."""
        if any(map(self._matters, names)):
            return False
        if len(self) + len(names) > MAX_NAMES:
            self.clear()
        self.update([name for name in names if len(name) <= MAX_CHARACTERS][:MAX_NAMES])
        return True
