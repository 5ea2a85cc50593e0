"""fraction-injector controller: keeps the ledger and places pods."""

from __future__ import annotations

from cli.process_command import process_command
from controller.options import ControllerOptions


@process_command
def controller(options: ControllerOptions) -> None:
    """Keep the ledger of GPU slices, place pods for the webhook, and publish it as GpuLedgers.

    Run two replicas: one leads, the other stands by. Stops on SIGTERM or Ctrl-C.
    """
    # Here and not above: help does not wait for the Kubernetes client.
    from cli.options import fail  # noqa: PLC0415
    from cluster.endpoint import NoApiServerError  # noqa: PLC0415
    from controller.process import run_controller  # noqa: PLC0415
    from service.http.serving import run  # noqa: PLC0415
    from service.log import configure_logging  # noqa: PLC0415

    configure_logging(options.log_level, options.log_format)
    try:
        run(run_controller(options))
    except (NoApiServerError, OSError) as error:
        fail(str(error))
