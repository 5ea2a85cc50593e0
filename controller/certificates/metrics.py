"""Metrics of the certificates that the controller issues and of the caBundle that it keeps."""

from __future__ import annotations

from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.observation import Observation
from certs.rotation import Change, Phase


class CertificateMetrics:
    """Expiry, phase and errors; times are Unix seconds, 0 without a certificate."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        expiry = gauge(
            "fraction_injector_issued_certificate_expiry_timestamp_seconds",
            "When the issued leaf and the signing CA expire, in Unix seconds.",
            ["certificate"],
        )
        self._leaf, self._authority = expiry.labels("leaf"), expiry.labels("ca")
        phases = gauge(
            "fraction_injector_rotation_phase", "1 for the phase that the rotation is in.", ["phase"]
        )
        self._phases = {phase: phases.labels(phase.value) for phase in Phase}
        self.errors = counter(
            "fraction_injector_certificate_errors", "Certificates that could not be issued or stored."
        )
        writes = counter(
            "fraction_injector_certificate_writes",
            "Writes to the certificate Secrets and the caBundle, by action; StoreNewAuthority is a new CA.",
            ["action"],
        )
        self._writes = {action.__name__: writes.labels(action.__name__) for action in get_args(Change)}
        self._configuration_missing = gauge(
            "fraction_injector_webhook_configuration_missing",
            "1 if the leading controller finds no webhook configuration, else 0.",
        )

    def written(self, action: str) -> None:
        """Count one write, by the name of its action."""
        self._writes[action].inc()

    def show_configuration(self, *, is_there: bool) -> None:
        """Say whether the webhook configuration was found."""
        self._configuration_missing.set(not is_there)

    def show(self, seen: Observation, now: Phase) -> None:
        """Set the gauges from what was read."""
        leaf, authority = seen.tls.leaf, seen.authorities.current
        self._leaf.set(leaf.not_after.timestamp() if leaf else 0)
        self._authority.set(authority.not_after.timestamp() if authority else 0)
        for phase, gauge in self._phases.items():
            gauge.set(phase is now)
