"""The turns of namespaces: the least recently served comes first, and unused instances are given up.

Pure: the caller passes monotonic seconds. Kept only in memory. A new controller orders namespaces by the age
of their oldest pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from service.turns import Turns

USE_SECONDS = 60.0
"""How long free instances are reserved: the scheduler retries a pod within about ten seconds."""
FIRST_DEFERRAL_SECONDS = 300.0
MEMORY_SECONDS = 3600.0
"""How long it counts that a namespace was served."""


class _Given(NamedTuple):
    seconds: float
    """How long instances were reserved."""
    at: float
    """When that was last updated."""


class NamespaceTurns:
    """When each namespace was last served."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._given: dict[str, _Given] = {}
        """Namespaces for which instances were reserved since their last turn."""
        self._given_now: frozenset[str] = frozenset()
        self._looked_at = 0.0

    @property
    def last(self) -> Mapping[str, float]:
        """Seconds of the last turn, by namespace, of recently served namespaces."""
        return self._last

    def take(self, namespaces: Iterable[str], now: float) -> None:
        """Record that these namespaces were served now."""
        for namespace in namespaces:
            self._last[namespace] = now
            self._given.pop(namespace, None)

    def give(self, namespaces: Collection[str], now: float) -> None:
        """Record for which namespaces instances are reserved now; `USE_SECONDS` in all count as a turn.

        Otherwise two namespaces that reserve instances alternately would each start again after the other.
        """
        since, self._looked_at = self._looked_at, now
        for name in self._given_now:
            seconds = self._given[name].seconds if name in self._given else 0.0
            self._given[name] = _Given(seconds + now - since, now)
        self._given_now = frozenset(namespaces)
        self.take([name for name, each in self._given.items() if each.seconds >= USE_SECONDS], now)

    def forget(self, now: float) -> None:
        """Drop namespaces that were last served long ago."""
        self._last = {name: at for name, at in self._last.items() if now - at < MEMORY_SECONDS}
        self._given = {name: each for name, each in self._given.items() if now - each.at < MEMORY_SECONDS}


class Deferrals:
    """Pods that did not use instances reserved for them: they fit no node for another reason."""

    def __init__(self) -> None:
        self._given_since: dict[str, float] = {}
        self._turns = Turns[str](lambda _: "", lambda uid: uid, FIRST_DEFERRAL_SECONDS)

    def give(self, pods: Collection[str], now: float) -> list[str]:
        """Record for which pods, by uid, instances are reserved; return those deferred from now on."""
        since = {uid: self._given_since.get(uid, now) for uid in pods}
        late = [uid for uid, at in since.items() if now - at >= USE_SECONDS]
        for uid in late:
            self._turns.refused(uid, now)
        self._given_since = {uid: at for uid, at in since.items() if uid not in late}
        return late

    def is_deferred(self, uid: str, now: float) -> bool:
        """Whether nothing is done for a pod now."""
        return self._turns.pauses(uid, now)

    def keep(self, waiting: Collection[str]) -> None:
        """Drop the pods, by uid, that no longer wait."""
        self._turns.keep(waiting)
