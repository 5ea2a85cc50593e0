"""The certificate of a server whose TLS Secret is mounted: its newest valid pair, live."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from certs.client_context import client_context
from certs.live_context import LiveTlsContext
from certs.pair import CertificateError, LeafFacts, TlsFiles
from certs.watcher import MountedPair, MountRules


class MountedCertificate:
    """Serves the newest valid pair of a directory, and shows the same one as a client."""

    def __init__(  # noqa: PLR0913 what is read, what is done with it, and who gets in
        self,
        directory: Path,
        rules: MountRules,
        served: Callable[[LeafFacts], None],
        refused: Callable[[CertificateError], None],
        *,
        verify_clients: bool = False,
        client_ca_pem: bytes | None = None,
    ) -> None:
        """Read the directory once; `served` and `refused` get what becomes of each new content.

        With `verify_clients` only clients with a certificate of `ca.crt` get in; with `client_ca_pem` only
        those with a certificate of these CAs.
        """
        self.context = LiveTlsContext(verify_clients=verify_clients or client_ca_pem is not None)
        self.client: ssl.SSLContext | None = None
        """Shows the pair to servers of the same CA; None before the first."""
        self._verify_clients = verify_clients
        self._client_ca_pem = client_ca_pem
        self._served = served
        self._refused = refused
        self._last_error = "no certificate has been read yet"
        self._mounted = MountedPair(directory, rules, lambda: datetime.now(UTC), self._accept, self._reject)
        self._mounted.refresh()

    @property
    def missing(self) -> str | None:
        """Why no certificate is served, if none is."""
        return None if self.context.serving else self._last_error

    async def follow(self) -> None:
        """Serve the newest pair, until cancelled."""
        await self._mounted.run()

    def _accept(self, files: TlsFiles, leaf: LeafFacts) -> None:
        client = client_context(files)
        self.context.swap(files.pair, files.ca_pem if self._verify_clients else self._client_ca_pem)
        self.client = client
        self._served(leaf)

    def _reject(self, error: CertificateError) -> None:
        self._last_error = str(error)
        self._refused(error)
