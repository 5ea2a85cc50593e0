"""The certificate that a process serves, in its metrics and its log."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

from service.log import get_logger


class Leaf(Protocol):
    """What metrics and probes need of the served certificate."""

    @property
    def not_after(self) -> datetime:
        """When the certificate expires."""


class ServedCertificate:
    """Counts and logs the certificates of one process; both series are 0 from the start."""

    def __init__(self, registry: CollectorRegistry, source: str) -> None:
        """`source` is the origin of certificates, for the log."""
        self._source = source
        self._expiry = Gauge(
            "fraction_injector_certificate_expiry_timestamp_seconds",
            "When the served certificate ends, in Unix seconds.",
            registry=registry,
        )
        self._refusals = Counter(
            "fraction_injector_certificate_swap_errors",
            "Certificate pairs that were mounted and not served.",
            registry=registry,
        )
        self._log = get_logger("certificate")

    def show(self, leaf: Leaf) -> None:
        """Update the metrics for a certificate that is served, without a log line."""
        self._expiry.set(leaf.not_after.timestamp())

    def served(self, leaf: Leaf) -> None:
        """Record that a mounted certificate is served from now on."""
        self.show(leaf)
        self._log.info("certificate is served", source=self._source)

    def refused(self, error: Exception) -> None:
        """Record that a mounted pair is not served."""
        self._refusals.inc()
        self._log.warning("certificate is not served", error=str(error))
