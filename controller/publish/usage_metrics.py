"""Metrics of allocated slices and MiB, and of quotas. The number of series is bounded, whatever users write.

Users can set any queue label, so only queues in the policies are shown. Namespaces are shown up to a limit;
the rest is summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Literal

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger.ledger import Ledger
from ledger.placement_request import Quota
from ledger.quota_line import QuotasOf, unknown_quotas

MAX_SHOWN = 200
"""Namespaces, and queues, with their own series."""
OTHERS = "_others"
"""Name for all other namespaces; no namespace can have it."""


class UsageCollector(Collector):
    """Slices and MiB of namespaces and queues, and their quotas, computed at each scrape."""

    def __init__(
        self,
        ledger: Ledger,
        quotas: Callable[[], Iterable[Quota]],
        queues: Callable[[], Iterable[Quota]],
        quotas_of: QuotasOf = unknown_quotas,
    ) -> None:
        """`queues` returns a quota without limits for each queue in the policies, `quotas_of` a pod's."""
        self._ledger = ledger
        self._quotas = quotas
        self._queues = queues
        self._quotas_of = quotas_of

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        quotas = list(self._quotas())
        of_namespaces = {quota.name: quota for quota in quotas if quota.scope == "namespace"}
        of_queues = {quota.name: quota for quota in self._queues()}
        of_queues |= {quota.name: quota for quota in quotas if quota.scope == "queue"}
        used = shown(self._ledger.used_by_namespace(), of_namespaces)
        shown_queues = dict(list(of_queues.items())[:MAX_SHOWN])
        used_of_queues = {name: self._ledger.used_of(quota).slices for name, quota in shown_queues.items()}
        yield _gauge(
            "namespace", "allocated", "Slices that pods of a namespace have, reserved ones included.", used
        )
        yield _gauge(
            "namespace", "quota", "Slices that a namespace may have.", _given(of_namespaces, "slices")
        )
        yield _gauge(
            "queue", "allocated", "Slices that pods of a queue in the policies have.", used_of_queues
        )
        yield _gauge("queue", "quota", "Slices that a queue may have.", _given(of_queues, "slices"))
        namespaces = [Quota("namespace", name) for name in used if name != OTHERS]
        yield from self._of_memory("namespace", namespaces, of_namespaces)
        yield from self._of_memory("queue", shown_queues.values(), of_queues)
        yield from self._waiting(quotas)

    def _waiting(self, quotas: Iterable[Quota]) -> Iterator[Metric]:
        waiting = self._ledger.line.lengths(self._quotas_of)
        for scope in ("namespace", "queue"):
            values = {quota.name: waiting.get(quota, 0) for quota in quotas if quota.scope == scope}
            shown_values = dict(list(values.items())[:MAX_SHOWN])
            yield _gauge(
                scope, "waiting", f"Pods that wait for the quota of a {scope}.", shown_values, "pods"
            )

    def _of_memory(self, scope: str, of: Iterable[Quota], quotas: Mapping[str, Quota]) -> Iterator[Metric]:
        used = self._ledger.mib_used_of(of)
        documentation = f"MiB of GPU memory that pods of a {scope} have, reserved ones included."
        yield _gauge(scope, "allocated", documentation, used, "mib")
        documentation = f"MiB of GPU memory that a {scope} may have."
        yield _gauge(scope, "quota", documentation, _given(quotas, "memory_mib"), "mib")


def shown(used: Mapping[str, int], with_quota: Iterable[str]) -> dict[str, int]:
    """Return the slices of namespaces: those with a quota first, then by size; the rest as one sum."""
    names = list(dict.fromkeys(with_quota))[:MAX_SHOWN]
    largest = nlargest(MAX_SHOWN, used.items(), key=itemgetter(1))
    known = set(names)
    names += [name for name, _ in largest if name not in known][: MAX_SHOWN - len(names)]
    found = {name: used.get(name, 0) for name in names}
    rest = sum(used.values()) - sum(found.values())
    return found | {OTHERS: rest} if rest else found


def _given(quotas: Mapping[str, Quota], limit: Literal["slices", "memory_mib"]) -> dict[str, int]:
    limits = ((name, getattr(quota, limit)) for name, quota in quotas.items())
    return dict(islice(((name, most) for name, most in limits if most is not None), MAX_SHOWN))


def _gauge(
    scope: str, what: str, documentation: str, values: Mapping[str, int], unit: str = "slices"
) -> Metric:
    metric = GaugeMetricFamily(f"fraction_injector_{scope}_{unit}_{what}", documentation, labels=[scope])
    for name, value in values.items():
        metric.add_metric([name], value)
    return metric
