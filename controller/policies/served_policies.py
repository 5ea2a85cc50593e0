"""Which policies each webhook serves, as it last told the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger.messages import ServedPolicies

FORGET_SECONDS = 10.0
"""A webhook tells every three seconds; one that is silent for longer has ended."""
MAX_WEBHOOKS = 100
"""Replicas that are kept."""


class WebhookPolicies(Collector):
    """Digests by webhook; those that are silent are forgotten."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, str]] = {}

    def add(self, told: ServedPolicies) -> None:
        """Take in what a webhook tells; of more than are kept the one that was heard longest ago goes."""
        self._told.pop(told.webhook, None)
        self._told[told.webhook] = (self._clock(), told.digest)
        if len(self._told) > MAX_WEBHOOKS:
            del self._told[next(iter(self._told))]

    def by_webhook(self) -> dict[str, str]:
        """Return the digest that each webhook serves, by its name; empty where it has no policies."""
        since = self._clock() - FORGET_SECONDS
        self._told = {name: told for name, told in self._told.items() if told[0] >= since}
        return {name: digest for name, (_, digest) in sorted(self._told.items())}

    def detail(self, digest: str | None) -> str | None:
        """Return one line for people on who serves the set of a digest; None where no webhook tells."""
        served = self.by_webhook()
        if not served or digest is None:
            return None
        others = [f"{name} serves {other or 'none'}" for name, other in served.items() if other != digest]
        count = len(served) - len(others)
        text = f"policies {digest}: in force at {count} of {len(served)} webhooks"
        return "; ".join([text, *others])

    def collect(self) -> Iterator[Metric]:
        """Make the gauge."""
        family = GaugeMetricFamily(
            "fraction_injector_webhooks_by_policies",
            "Webhooks that tell this replica, as the leader, by the digest of the policies that they serve.",
            labels=["digest"],
        )
        served = list(self.by_webhook().values())
        for digest in sorted(set(served)):
            family.add_metric([digest], served.count(digest))
        yield family
