"""Denials of the last hour by reason and namespace."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from kube.names import is_namespace
from kube.reasons import DENIED
from ledger.messages import DenialCount

HOUR_SECONDS = 3600.0
MINUTE_SECONDS = 60.0
MAX_KEPT = 500
"""Pairs of a reason and a namespace: the latest are kept."""


@dataclass(slots=True)
class _Kept:
    """Denials for one reason in one namespace."""

    message: str = ""
    minutes: Counter[int] = field(default_factory=Counter)
    """Pods that were denied, by the number of the minute."""

    def forget(self, now: float) -> None:
        over = [minute for minute in self.minutes if minute * MINUTE_SECONDS + HOUR_SECONDS <= now]
        for minute in over:
            del self.minutes[minute]


class DenialWindow:
    """Counts denials per minute. Memory is bounded; of the messages only the last one is kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def add(self, counted: DenialCount, now: float) -> None:
        """Add pods that were denied at about `now`; ignore unknown reasons and invalid namespaces."""
        if counted.reason not in DENIED or not is_namespace(counted.namespace):
            return
        key = (counted.reason, counted.namespace)
        kept = self._kept.setdefault(key, _Kept())
        kept.message = counted.message
        kept.minutes[int(now // MINUTE_SECONDS)] += counted.pods
        kept.forget(now)
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def of_last_hour(self, now: float) -> list[DenialCount]:
        """Return the sums; the latest denial comes first."""
        for kept in self._kept.values():
            kept.forget(now)
        for key in [key for key, kept in self._kept.items() if not kept.minutes]:
            del self._kept[key]
        return [
            DenialCount(reason, namespace, kept.minutes.total(), kept.message)
            for (reason, namespace), kept in reversed(self._kept.items())
        ]
