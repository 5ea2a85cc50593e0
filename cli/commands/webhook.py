"""fraction-injector webhook: the admission webhook itself."""

from __future__ import annotations

from cli.process_command import process_command
from webhook.options import WebhookOptions


@process_command
def webhook(options: WebhookOptions) -> None:
    """Answer admission reviews over TLS.

    A standalone webhook has its own ledger: it starts with --inventory, and placed pods stay placed. With
    --controller, the controller places pods; while it is down, its last snapshot is used. Stops on SIGTERM or
    Ctrl-C.

    Try: fraction-injector webhook --self-signed --port 8443 --inventory nodes.yaml, then
    curl --cacert ca.pem -H 'content-type: application/json' --data @review.json https://localhost:8443/mutate
    """
    # Here and not above: help does not wait for the server.
    from cli.options import fail, read_ledger, read_policies  # noqa: PLC0415
    from policies.model.problems import PolicyError  # noqa: PLC0415
    from service.http.serving import run  # noqa: PLC0415
    from service.log import configure_logging  # noqa: PLC0415
    from webhook.process import WebhookProcess  # noqa: PLC0415

    configure_logging(options.log_level, options.log_format)
    ledger = read_ledger(read_policies(options.policies), options.inventory) if options.inventory else None
    try:
        process = WebhookProcess(options, ledger)
    except (OSError, PolicyError, ValueError) as error:
        fail(str(error))
    run(process.run())
