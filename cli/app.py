"""The fraction-injector command: every subcommand mounted in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import VERSION
from cli.commands.agent import agent
from cli.commands.certs import certs_app
from cli.commands.controller import controller
from cli.commands.cordon import cordon, uncordon
from cli.commands.demo import demo
from cli.commands.explain import explain
from cli.commands.gpu_operator import gpu_operator_values
from cli.commands.ledger import ledger
from cli.commands.policy import policy_app
from cli.commands.queues import queues_app
from cli.commands.webhook import webhook
from cli.commands.why import why

app = typer.Typer(
    name="fraction-injector",
    help="Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(wanted: bool) -> None:  # noqa: FBT001 typer calls it so
    if wanted:
        typer.echo(f"fraction-injector {VERSION}")
        raise typer.Exit


@app.callback()
def _app(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out."""


app.command()(demo)
app.command()(webhook)
app.command()(controller)
app.command()(agent)
app.command()(explain)
app.command()(ledger)
app.command()(why)
app.command()(cordon)
app.command()(uncordon)
app.command("gpu-operator-values")(gpu_operator_values)
app.add_typer(certs_app, name="certs")
app.add_typer(policy_app, name="policy")
app.add_typer(queues_app, name="queues")
