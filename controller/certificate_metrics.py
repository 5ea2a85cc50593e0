"""What there is to know about the certificates that the controller keeps."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.observation import Observation
from certs.rotation import Phase


class CertificateMetrics:
    """Expiry, phase and trouble; times are Unix seconds, 0 while there is no certificate."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expiry = Gauge(
            "fraction_injector_issued_certificate_expiry_timestamp_seconds",
            "When the issued leaf and the CA that signs end, in Unix seconds.",
            ["certificate"],
            registry=registry,
        )
        self._leaf, self._authority = expiry.labels("leaf"), expiry.labels("ca")
        phases = Gauge(
            "fraction_injector_rotation_phase",
            "1 for the phase that the rotation is in.",
            ["phase"],
            registry=registry,
        )
        self._phases = {phase: phases.labels(phase.value) for phase in Phase}
        self.errors = Counter(
            "fraction_injector_certificate_errors", "Certificates that could not be made.", registry=registry
        )

    def show(self, seen: Observation, now: Phase) -> None:
        """Bring the gauges to what was seen."""
        leaf, authority = seen.tls.leaf, seen.authorities.current
        self._leaf.set(leaf.not_after.timestamp() if leaf else 0)
        self._authority.set(authority.not_after.timestamp() if authority else 0)
        for phase, gauge in self._phases.items():
            gauge.set(phase is now)
