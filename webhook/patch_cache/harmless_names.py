"""Names that are known to need no weighing, in a set: one question for all names of a pod.

Whoever asks first asks the set itself, which almost always holds all names: `names.issuperset(found) or
names.learn(found)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

LONGEST = 128
"""Characters of the longest name worth keeping."""
MOST = 1024


class PlainNames(set[str]):
    """The names found plain so far. Bounded in number and length, because pod authors write them."""

    __slots__ = ("_is_weighed",)

    def __init__(self, is_weighed: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_weighed = is_weighed

    def learn(self, names: Collection[str]) -> bool:
        """Whether none of the names has to be weighed; they are held from then on."""
        if any(map(self._is_weighed, names)):
            return False
        if len(self) + len(names) > MOST:
            self.clear()
        self.update([name for name in names if len(name) <= LONGEST][:MOST])
        return True
