"""kubectl-fraction: the commands for users of a cluster, as a kubectl plugin."""

from __future__ import annotations

import typer

from cli.commands.doctor import doctor
from cli.commands.explain import explain
from cli.commands.ledger import ledger
from cli.commands.why import why

app = typer.Typer(
    name="kubectl fraction",
    help="Fractional GPUs: which pods hold them, why a pod waits, what a manifest would get, what is broken.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(ledger)
app.command()(why)
app.command()(explain)
app.command()(doctor)


def main() -> None:
    """Run the plugin, with the kubeconfig that kubectl itself would use."""
    app()
