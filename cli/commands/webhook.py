"""fraction-injector webhook: the admission webhook itself."""

from __future__ import annotations

from cli.options import fail, read_ledger, read_policies
from cli.process_command import process_command
from policies.model.problems import PolicyError
from service.http.serving import run
from service.log import configure_logging
from webhook.options import WebhookOptions
from webhook.process import WebhookProcess


@process_command
def webhook(options: WebhookOptions) -> None:
    """Answer admission reviews over TLS.

    Standalone, the ledger lives in this process: it is made from --inventory once, and what is placed stays
    placed. With --controller, that one places; while it is away pods are placed by its last snapshot.
    Stops on SIGTERM or Ctrl-C.

    Try: fraction-injector webhook --self-signed --port 8443 --inventory nodes.yaml, then
    curl --cacert ca.pem -H 'content-type: application/json' --data @review.json https://localhost:8443/mutate
    """
    configure_logging(options.log_level, options.log_format)
    ledger = read_ledger(read_policies(options.policies), options.inventory) if options.inventory else None
    try:
        process = WebhookProcess(options, ledger)
    except (OSError, PolicyError, ValueError) as error:
        fail(str(error))
    run(process.run())
