"""Objects that were denied in the last hour, by reason and namespace."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from kube.names import is_namespace
from kube.reasons import DENIED
from ledger.messages import DenialCount, Denied

HOUR_SECONDS = 3600.0
MAX_KEPT = 5000
"""Objects. Beyond it, the oldest of those is forgotten that have the most in common: reason and namespace."""


@dataclass(slots=True)
class _Kept:
    """Denials for one reason in one namespace."""

    message: str = ""
    objects: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """When each was denied last, the latest at the end."""


class DenialWindow:
    """Counts an object once, however often its controller tries again; keeps `most` objects."""

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def add(self, denied: Denied, now: float) -> None:
        """Add an object that was denied at about `now`; ignore unknown reasons and invalid namespaces."""
        if denied.reason not in DENIED or not is_namespace(denied.namespace):
            return
        key = (denied.reason, denied.namespace)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        kept.message = denied.message
        kept.objects[denied.object] = now
        kept.objects.move_to_end(denied.object)
        if sum([len(each.objects) for each in self._kept.values()]) > self._most:
            self._forget_oldest(max(self._kept, key=lambda each: len(self._kept[each].objects)))

    def of_last_hour(self, now: float) -> list[DenialCount]:
        """Return the numbers of objects; the latest denial comes first."""
        for key, kept in [*self._kept.items()]:
            for _ in [at for at in kept.objects.values() if at + HOUR_SECONDS <= now]:
                self._forget_oldest(key)
        return [
            DenialCount(reason, namespace, len(kept.objects), kept.message)
            for (reason, namespace), kept in reversed(self._kept.items())
        ]

    def take(self) -> list[Denied]:
        """Return all objects, and forget them."""
        kept, self._kept = self._kept, OrderedDict()
        return [
            Denied(reason, namespace, each.message, name)
            for (reason, namespace), each in kept.items()
            for name in each.objects
        ]

    def _forget_oldest(self, key: tuple[str, str]) -> None:
        objects = self._kept[key].objects
        objects.popitem(last=False)
        if not objects:
            del self._kept[key]
