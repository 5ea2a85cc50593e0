"""fraction-injector demo: the real webhook over HTTPS, with pods of ClearML's agent."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep running afterwards, for your own requests.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TLS port; 0 takes a free one.")] = 0,
) -> None:
    """See a labelled pod become a half-GPU pod, in one command.

    Starts the webhook with an inventory of four nodes, sends it the pods of examples/demo over HTTPS, applies
    the patches, and prints which pod holds which slices. Needs no cluster and no GPU.
    """
    from cli.demonstration import run_demo  # noqa: PLC0415 help does not wait for the webhook's code

    run_demo(port, serve=serve)
