"""The policies that each webhook serves, by its last report to the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger.messages import ServedPolicies

FORGET_SECONDS = 10.0
"""A webhook reports every three seconds; after this silence it has ended."""
MAX_WEBHOOKS = 100
"""Webhooks that are remembered."""


class WebhookPolicies(Collector):
    """Digests by webhook; silent webhooks are dropped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reports: dict[str, tuple[float, str]] = {}

    def add(self, report: ServedPolicies) -> None:
        """Record a webhook's report; beyond MAX_WEBHOOKS, drop the one with the oldest report."""
        self._reports.pop(report.webhook, None)
        self._reports[report.webhook] = (self._clock(), report.digest)
        if len(self._reports) > MAX_WEBHOOKS:
            del self._reports[next(iter(self._reports))]

    def by_webhook(self) -> dict[str, str]:
        """Return the digest that each webhook serves, by its name; empty if it has no policies."""
        since = self._clock() - FORGET_SECONDS
        self._reports = {name: report for name, report in self._reports.items() if report[0] >= since}
        return {name: digest for name, (_, digest) in sorted(self._reports.items())}

    def detail(self, digest: str | None) -> str | None:
        """Return one line on which webhooks serve this digest; None without reports."""
        served = self.by_webhook()
        if not served or digest is None:
            return None
        others = [f"{name} serves {other or 'none'}" for name, other in served.items() if other != digest]
        count = len(served) - len(others)
        text = f"policies {digest}: in force at {count} of {len(served)} webhooks"
        return "; ".join([text, *others])

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge."""
        family = GaugeMetricFamily(
            "fraction_injector_webhooks_by_policies",
            "Webhooks that report to this replica as the leader, by digest of the policies that they serve.",
            labels=["digest"],
        )
        served = list(self.by_webhook().values())
        for digest in sorted(set(served)):
            family.add_metric([digest], served.count(digest))
        yield family
