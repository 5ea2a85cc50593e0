"""Where the webhook's certificate comes from: made at start, or a mounted directory that is watched."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from certs.ca_file import write_ca_file
from certs.live_context import LiveTlsContext
from certs.mounted import MountedCertificate, MountRules
from certs.values import CertificateError, LeafFacts
from service.log import get_logger
from webhook.metrics import WebhookMetrics


def self_signed_context(
    ca_file: Path, metrics: WebhookMetrics, client_ca_pem: bytes | None
) -> tuple[LiveTlsContext, ssl.SSLContext]:
    """A CA and a leaf for this machine, new at every start; only the CA's certificate is written.

    Also gives the context of a client that trusts it. With `client_ca_pem` only clients of these CAs get in.

    Raises:
        CertificateError: they cannot be made.
        OSError: the file cannot be written.
    """
    from certs.self_signed import self_signed  # noqa: PLC0415 11 MB that a mounted certificate does not need

    made = self_signed(datetime.now(UTC))
    write_ca_file(ca_file, made.ca_pem)
    context = LiveTlsContext(verify_clients=client_ca_pem is not None)
    context.swap(made.pair, client_ca_pem)
    metrics.certificate_expiry.set(made.not_after.timestamp())
    return context, ssl.create_default_context(cadata=made.ca_pem.decode("ascii"))


def mounted_certificate(
    directory: Path, rules: MountRules, metrics: WebhookMetrics, client_ca_pem: bytes | None
) -> MountedCertificate:
    """The newest valid pair of a directory, as the kubelet mounts a Secret."""
    log = get_logger("certificate")

    def served(leaf: LeafFacts) -> None:
        metrics.certificate_expiry.set(leaf.not_after.timestamp())
        log.info("certificate is served", source=str(directory))

    def refused(error: CertificateError) -> None:
        metrics.swap_errors.inc()
        log.warning("certificate is not served", error=str(error))

    return MountedCertificate(directory, rules, served, refused, client_ca_pem=client_ca_pem)
