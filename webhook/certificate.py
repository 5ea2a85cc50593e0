"""Where the webhook's certificate comes from: made at start, or a mounted directory that is watched."""

from __future__ import annotations

import ssl
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509

from certs import (
    CertificateError,
    KeyPair,
    LiveTlsContext,
    MountedPair,
    MountRules,
    TlsFiles,
    client_context,
    self_signed,
    write_ca_file,
)
from service.log import get_logger
from webhook.metrics import WebhookMetrics


class Source(Protocol):
    """Keeps a live TLS context supplied."""

    context: LiveTlsContext

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """What must run beside the server."""

    def missing(self) -> str | None:
        """What readiness still waits for; None when a certificate is served."""


@dataclass
class SelfSignedSource:
    """A CA and a leaf for this machine, new at every start; only the CA's certificate is written."""

    ca_file: Path
    metrics: WebhookMetrics

    def __post_init__(self) -> None:
        self.context = LiveTlsContext()
        made = self_signed(datetime.now(UTC))
        write_ca_file(self.ca_file, made.ca_pem)
        self.context.swap(made.pair)
        self.metrics.certificate_expiry.set(_expiry(made.pair))

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Nothing to watch."""
        return []

    def missing(self) -> str | None:
        """Served from the start."""
        return None


class MountedSource:
    """The newest valid pair of a directory, as the kubelet mounts a Secret."""

    def __init__(self, directory: Path, rules: MountRules, metrics: WebhookMetrics) -> None:
        self.context = LiveTlsContext()
        self.client: ssl.SSLContext | None = None
        """Shows the same pair to the controller."""
        self._metrics = metrics
        self._log = get_logger("certificate")
        self._last_error = "no certificate has been read yet"
        self._mounted = MountedPair(directory, rules, lambda: datetime.now(UTC), self._accept, self._reject)
        self._mounted.refresh()

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Follow the directory."""
        return [self._mounted.run()]

    def missing(self) -> str | None:
        """Why no certificate is served, if none is."""
        return None if self.context.serving else self._last_error

    def _accept(self, files: TlsFiles) -> None:
        client = client_context(files)
        self.context.swap(files.pair)
        self.client = client
        self._metrics.certificate_expiry.set(_expiry(files.pair))
        self._log.info("certificate is served", source=files.source)

    def _reject(self, error: CertificateError) -> None:
        self._last_error = str(error)
        self._metrics.swap_errors.inc()
        self._log.warning("certificate is not served", error=str(error))


def _expiry(pair: KeyPair) -> float:
    """When the leaf of a pair ends, in Unix seconds."""
    return x509.load_pem_x509_certificate(pair.certificate_pem).not_valid_after_utc.timestamp()
