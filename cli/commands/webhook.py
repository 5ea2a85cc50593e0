"""fraction-injector webhook: the admission webhook itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certs.mounted import MountRules
from cli.options import (
    DEFAULT_POLICIES,
    PoliciesOption,
    fail,
    read_ledger,
    read_policies,
)
from cli.process_options import (
    LOOPBACK,
    HostOption,
    LogFormatOption,
    LogLevelOption,
    StopDelayOption,
    TlsNameOption,
)
from policies.model.problems import PolicyError
from service.log import configure_logging
from service.serving import run
from webhook.placing.controller_wait import CONTROLLER_WAIT_SECONDS
from webhook.process import WebhookOptions, WebhookProcess


def webhook(  # noqa: PLR0913 each is an option of the command
    *,
    policies: PoliciesOption = DEFAULT_POLICIES,
    inventory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Standalone: the nodes, and pods if you like, as `kubectl get nodes -o yaml` prints them.",
        ),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default=False,
            help="Let the controller place, instead of an inventory: https://HOST:PORT of its Service.",
        ),
    ] = None,
    controller_wait: Annotated[
        float,
        typer.Option(min=0, help="With --controller: seconds to stay unready until it has told its nodes."),
    ] = CONTROLLER_WAIT_SECONDS,
    host: HostOption = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TLS port; 0 takes a free one.")] = 8443,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Plain port for /livez, /readyz and /metrics.", show_default="none"
        ),
    ] = None,
    page_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            show_default="none",
            help="Standalone: show the ledger as a page, at http://localhost:PORT/; 0 takes a free one.",
        ),
    ] = None,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="Make a certificate for localhost and 127.0.0.1 at start.")
    ] = False,
    ca_file: Annotated[
        Path, typer.Option(metavar="FILE", help="With --self-signed: where to write the CA for clients.")
    ] = Path("ca.pem"),
    tls_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Certificate to serve instead: tls.crt, tls.key and ca.crt, read again when they change.",
        ),
    ] = None,
    tls_name: TlsNameOption = None,
    require_injected_ca: Annotated[
        bool,
        typer.Option(
            "--require-injected-ca",
            help="With --tls-dir: serve only what the controller has issued and injected (file injected-ca).",
        ),
    ] = False,
    client_ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="anybody gets in",
            help="PEM of the CAs whose clients get in on the TLS port, and nobody else: the API server's.",
        ),
    ] = None,
    stop_delay: StopDelayOption = 10,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "auto",
) -> None:
    """Answer admission reviews over TLS.

    Standalone, the ledger lives in this process: it is made from --inventory once, and what is placed stays
    placed. With --controller, that one places; while it is away pods are placed by its last snapshot.
    Stops on SIGTERM or Ctrl-C.

    Try: fraction-injector webhook --self-signed --port 8443 --inventory nodes.yaml, then
    curl --cacert ca.pem -H 'content-type: application/json' --data @review.json https://localhost:8443/mutate
    """
    if self_signed == (tls_dir is not None):
        fail("the webhook needs one certificate: pass either --self-signed or --tls-dir DIR")
    if (controller is None) == (inventory is None):
        fail("the webhook needs one ledger: pass either --inventory FILE or --controller URL")
    if controller is not None and self_signed:
        fail("--controller needs --tls-dir DIR: webhook and controller show certificates of one CA")
    if controller is not None and page_port is not None:
        fail("--page-port shows the ledger of a standalone webhook: the controller shows its own with --page")
    configure_logging(log_level, log_format)
    ledger = read_ledger(read_policies(policies), inventory) if controller is None else None
    options = WebhookOptions(
        policies=policies,
        host=host,
        port=port,
        health_port=health_port,
        page_port=page_port,
        ca_file=ca_file if self_signed else None,
        tls_directory=tls_dir,
        tls_rules=MountRules(tuple(tls_name or ["localhost"]), require_injected=require_injected_ca),
        stop_delay_seconds=stop_delay,
        controller=controller,
        client_ca_pem=_client_ca(client_ca_file),
        controller_wait_seconds=controller_wait,
    )
    try:
        process = WebhookProcess(options, ledger)
    except (OSError, PolicyError, ValueError) as error:
        fail(str(error))
    run(process.run())


def _client_ca(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        fail(f"--client-ca-file {file}: {error.strerror}: name a file with the PEM of the CA of your clients")
