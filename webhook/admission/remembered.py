"""Answers of pure functions about short names, kept for the pods to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

LONGEST = 316
"""Characters of the longest name worth keeping: a qualified name of Kubernetes."""
MOST = 4096


class Remembered(dict[str, T], Generic[T]):
    """A function of a text as a dict: `remembered[text]` costs a dict's lookup from the second time on.

    Bounded in number and in length, because pod authors write the texts.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: str) -> T:
        answer = self._function(text)
        if len(text) <= LONGEST:
            if len(self) >= MOST:
                self.clear()
            self[text] = answer
        return answer
