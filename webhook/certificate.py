"""The certificate of a standalone webhook, created at start."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from certs.ca_file import write_ca_file
from certs.live_context import LiveTlsContext
from service.served_certificate import ServedCertificate


def self_signed_context(
    ca_file: Path, certificate: ServedCertificate, client_ca_pem: bytes | None
) -> tuple[LiveTlsContext, ssl.SSLContext]:
    """Create a CA and a leaf for this machine at every start; only the CA's certificate is written.

    Returns the context to serve, and a client's context that trusts it. With `client_ca_pem`, only clients
    with a certificate of these CAs are accepted.

    Raises:
        CertificateError: the client CAs cannot be read.
        OSError: the file cannot be written.
    """
    from certs.self_signed import self_signed  # noqa: PLC0415 11 MB that mounted certificates do not need

    made = self_signed(datetime.now(UTC))
    write_ca_file(ca_file, made.ca_pem)
    context = LiveTlsContext(verify_clients=client_ca_pem is not None)
    context.swap(made.pair, client_ca_pem)
    certificate.show(made)
    return context, ssl.create_default_context(cadata=made.ca_pem.decode("ascii"))
