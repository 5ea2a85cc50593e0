"""How a webhook process is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from service.options import (
    DEFAULT_POLICIES,
    LOCALHOST,
    LOOPBACK,
    Flag,
    Host,
    LineFormat,
    MinimumLevel,
    StopDelay,
    TlsNames,
)


def _client_ca(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        rule = "name a file with the PEM of the CA of your clients"
        raise ValueError(f"--client-ca-file {file}: {error.strerror}: {rule}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """The webhook's command line.

    Raises:
        ValueError: there is not one certificate and one ledger, or options exclude each other.
    """

    policies: Annotated[
        Path, Flag("Directory of policy files.", metavar="DIR", default="the built-in default policy")
    ] = DEFAULT_POLICIES
    inventory: Annotated[
        Path | None,
        Flag(
            "Standalone: nodes, and optional pods, as printed by `kubectl get nodes -o yaml`.", metavar="FILE"
        ),
    ] = None
    controller: Annotated[
        str | None,
        Flag(
            "Place pods through the controller, without an inventory: https://HOST:PORT of its Service.",
            metavar="URL",
        ),
    ] = None
    controller_wait: Annotated[
        float,
        Flag("With --controller: seconds to stay unready until it has sent its nodes.", min=0, hidden=True),
    ] = 20.0
    """A new leader takes about 8 s to get the Lease of a dead one; then it must answer."""
    host: Host = LOOPBACK
    port: Annotated[int, Flag("TLS port; 0 takes a free one.", min=0, max=65535)] = 8443
    health_port: Annotated[
        int | None, Flag("Plain port for /livez, /readyz and /metrics.", min=0, max=65535, default="none")
    ] = None
    page_port: Annotated[
        int | None,
        Flag(
            "Standalone: show the ledger as a page, at http://localhost:PORT/; 0 takes a free one.",
            min=0,
            max=65535,
            default="none",
        ),
    ] = None
    self_signed: Annotated[bool, Flag("Make a certificate for localhost and 127.0.0.1 at start.")] = False
    ca_file: Annotated[
        Path, Flag("With --self-signed: where to write the CA for clients.", metavar="FILE")
    ] = Path("ca.pem")
    tls_directory: Annotated[
        Path | None,
        Flag(
            "Certificate to serve instead: tls.crt, tls.key and ca.crt, read again when they change.",
            name="--tls-dir",
            metavar="DIR",
        ),
    ] = None
    tls_names: TlsNames = LOCALHOST
    require_injected_ca: Annotated[
        bool,
        Flag("With --tls-dir: serve only what the controller has issued and injected (file injected-ca)."),
    ] = False
    client_ca_pem: Annotated[
        bytes | None,
        Flag(
            "PEM of the CAs of the only clients that may use the TLS port: the API server's.",
            name="--client-ca-file",
            metavar="FILE",
            default="all clients may",
            parse=_client_ca,
        ),
    ] = None
    stop_delay: StopDelay = 10
    log_level: MinimumLevel = "info"
    log_format: LineFormat = "auto"

    def __post_init__(self) -> None:
        if self.self_signed == (self.tls_directory is not None):
            raise ValueError("the webhook needs one certificate: pass either --self-signed or --tls-dir DIR")
        if (self.controller is None) == (self.inventory is None):
            raise ValueError("the webhook needs one ledger: pass either --inventory FILE or --controller URL")
        if self.controller is not None and self.self_signed:
            raise ValueError(
                "--controller needs --tls-dir DIR: webhook and controller show certificates of one CA"
            )
        if self.controller is not None and self.page_port is not None:
            raise ValueError(
                "--page-port shows the ledger of a standalone webhook: the controller shows its own with "
                "--page"
            )
