"""The subcommands by name; only the requested one is loaded, because loading all takes a second longer."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from cli import VERSION

SUBCOMMANDS = {
    "demo": "demo:demo",
    "webhook": "webhook:webhook",
    "controller": "controller:controller",
    "agent": "agent:agent",
    "explain": "explain:explain",
    "ledger": "ledger:ledger",
    "suggest": "suggest:suggest",
    "why": "why:why",
    "status": "status:status",
    "doctor": "doctor:doctor",
    "quota": "quota:quota",
    "uninjected": "uninjected:uninjected",
    "cordon": "cordon:cordon",
    "uncordon": "cordon:uncordon",
    "gpu-operator-values": "gpu_operator:gpu_operator_values",
    "certs": "certs:certs_app",
    "policy": "policy:policy_app",
    "queues": "queues:queues_app",
    "run-queues": "run_queues:run_queues",
    "submit": "submit:submit",
    "tasks": "tasks:tasks",
    "logs": "tasks:logs",
    "cancel": "tasks:cancel",
}
"""Module of `cli.commands`, and its function or group of subcommands."""


def make_app(names: Collection[str]) -> typer.Typer:
    """Return the command with these subcommands; no others are imported."""
    app = typer.Typer(
        name="fraction-injector",
        help="Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out.",
        add_completion=len(names) > 1,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.callback()(_root)
    for name in names:
        module, _, attribute = SUBCOMMANDS[name].partition(":")
        found = getattr(import_module(f"cli.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _version(wanted: bool) -> None:  # noqa: FBT001 typer calls it so
    if wanted:
        typer.echo(f"fraction-injector {VERSION}")
        raise typer.Exit


def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out."""
