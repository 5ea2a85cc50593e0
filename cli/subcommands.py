"""The subcommands by name; only the requested one is loaded, because loading all takes a second longer."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from cli import VERSION
from cli.standard_streams import standard_streams

NAME = "fraction-injector"
ABOUT = "Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out."

SUBCOMMANDS = {
    "demo": ("demo:demo", "See a labelled pod become a half-GPU pod."),
    "explain": ("explain:explain", "Preview what becomes of pods; no cluster is asked."),
    "check": ("check:check", "Check policy files, and the values of charts."),
    "why": ("why:why", "Why a pod waits or was denied, and what would help."),
    "ledger": ("ledger:ledger", "Which pods hold which slices of which GPU."),
    "suggest": ("suggest:suggest", "The smallest shares that would have held what ran."),
    "doctor": ("doctor:doctor", "What is broken, line by line, and what to do."),
    "quota": ("quota:quota", "What namespaces and queues have of their quotas."),
    "cordon": ("cordon:cordon", "Place no new pods on GPUs of a node."),
    "uncordon": ("cordon:uncordon", "Place new pods on GPUs of a node again."),
    "certs": ("certs:certs_app", "Show and renew an installation's certificates."),
    "policy": ("policy:policy_app", "The policy of a namespace, the schema of policy files."),
    "gpu-operator-values": ("gpu_operator:gpu_operator_values", "Values for NVIDIA's GPU operator."),
    "run-queues": ("run_queues:run_queues", "Run queues on this machine, without Kubernetes."),
    "submit": ("submit:submit", "Add a task to a queue of this machine."),
    "tasks": ("tasks:tasks", "The tasks of this machine."),
    "logs": ("tasks:logs", "What a task printed."),
    "cancel": ("tasks:cancel", "End a task."),
    "webhook": ("webhook:webhook", "The process that answers admission reviews."),
    "controller": ("controller:controller", "The process that keeps the ledger and places pods."),
    "agent": ("agent:agent", "The process on each node that offers its GPUs."),
}
"""Module of `cli.commands` and its function or group of subcommands; and a line for the list of them."""
MOVED = {"status": "doctor --brief", "uninjected": "ledger --uninjected"}
"""Subcommands of earlier releases, and what to type now."""
PROCESSES = ("webhook", "controller", "agent")
"""Subcommands that run a process of the chart."""


def make_app(names: Collection[str], *, listed: Collection[str] = (), name: str = NAME) -> typer.Typer:
    """Return the command with these subcommands; no others are imported.

    Args:
        names: subcommands that can be run.
        listed: subcommands that the help only names.
        name: the command's name.
    """
    app = typer.Typer(
        name=name,
        help=ABOUT,
        add_completion=len(names) != 1,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # Rich would draw boxes, which not every terminal can show, and takes longer than most commands.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for each in names:
        place, line = SUBCOMMANDS[each]
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"cli.commands.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=each, short_help=line)
        else:
            app.command(each, short_help=line)(found)
    for each in listed:
        app.command(each, short_help=SUBCOMMANDS[each][1])(_only_listed)
    return app


def run(names: Collection[str], name: str) -> None:
    """Run the subcommand that the command line names.

    Args:
        names: subcommands that it may name.
        name: the command's name in its help.
    """
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted in MOVED:
        typer.echo(f"fraction-injector: {wanted} is now: {name} {MOVED[wanted]}", err=True)
        sys.exit(2)
    is_completion = any(each.endswith("_COMPLETE") for each in os.environ)
    # Loaded modules stay, and garbage collection would take a tenth of the start.
    gc.disable()
    if wanted in names:
        app = make_app([wanted], name=name)
    else:
        app = make_app(names, name=name) if is_completion else make_app([], listed=names, name=name)
    gc.freeze()
    gc.enable()
    with standard_streams():
        app()


def _only_listed() -> None:
    """Stand for a subcommand that is not loaded."""


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
    """Print the version, or run a subcommand."""
