"""Names that are known to need no weighing, in a set: one question for all names of a pod."""

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

    def hold(self, names: Collection[str]) -> bool:
        """Whether none of the names has to be weighed."""
        return self.issuperset(names) or self._learn(names)

    def _learn(self, names: Collection[str]) -> bool:
        if any(map(self._is_weighed, names)):
            return False
        if len(self) + len(names) > MOST:
            self.clear()
        self.update([name for name in names if len(name) <= LONGEST][:MOST])
        return True
