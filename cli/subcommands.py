"""The subcommands by name; only the requested one is loaded, because loading all takes a second longer."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli import VERSION
from cli.standard_streams import standard_streams

NAME = "fraction-injector"
ABOUT = "Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out."

SUBCOMMANDS = {
    "explain": ("explain:explain", "Preview what becomes of pods; no cluster is asked."),
    "why": ("why:why", "Why a pod waits or was denied, and what would help."),
    "quota": ("quota:quota", "What namespaces and queues have of their quotas."),
    "doctor": ("doctor:doctor", "What is broken, line by line, and what to do."),
    "ledger": ("ledger:ledger", "Which pods hold what of which GPU, and what they use."),
    "cordon": ("cordon:cordon", "Place no new pods on GPUs of a node; uncordon ends it."),
    "uncordon": ("cordon:uncordon", "Place new pods on GPUs of a node again."),
    "check": ("check:check", "Check policy files, and the values of charts."),
    "policy": ("policy:policy_app", "The policy of a namespace, the schema of policy files."),
    "certs": ("certs:certs_app", "Show and renew an installation's certificates."),
    "gpu-operator-values": ("gpu_operator:gpu_operator_values", "Values for NVIDIA's GPU operator."),
    "machine run": ("run_queues:run_queues", "Run queues on the GPUs of this machine."),
    "machine submit": ("submit:submit", "Add a task to a queue."),
    "machine tasks": ("tasks:tasks", "The tasks that run, wait, and have ended."),
    "machine logs": ("tasks:logs", "What a task printed."),
    "machine cancel": ("tasks:cancel", "End a task."),
    "machine retry": ("tasks:retry", "Submit a task again that has ended."),
    "machine ledger": ("machine:ledger", "Which tasks hold which slices of which GPU."),
    "machine doctor": ("machine:doctor", "What is wrong with this machine."),
    "demo": ("demo:demo", "See a labelled pod become a half-GPU pod."),
    "webhook": ("webhook:webhook", "The process that answers admission reviews."),
    "controller": ("controller:controller", "The process that keeps the ledger and places pods."),
    "agent": ("agent:agent", "The process on each node that offers its GPUs."),
}
"""Module of `cli.commands` and its function or group of subcommands; and a line for the list of them."""
GROUPS = {"machine": "Queues of this machine, without Kubernetes."}
"""First words that several subcommands share."""
SECTIONS = {
    "Pods": ("explain", "why", "quota"),
    "Cluster": ("doctor", "ledger", "cordon"),
    "Setup": ("check", "policy", "certs", "gpu-operator-values"),
    "Without a cluster": ("machine", "demo"),
}
"""The subcommands as the help lists them. Others work, too."""
_PYDANTIC = {
    "Value error, ": "",
    "Input should be ": "must be ",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
    "less than or equal to": "at most",
    "greater than or equal to": "at least",
}
"""Words of pydantic's messages, and ours."""
PROCESSES = ("webhook", "controller", "agent")
"""Subcommands that run a process of the chart."""


class SubcommandGroup(TyperGroup):
    """A command with subcommands. It has no help option when the help of a subcommand is asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the subcommand: for an option that is not given, Typer loads pydantic."""
        names = ctx.help_option_names
        if args and args[0] not in names:
            ctx.help_option_names = []
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.help_option_names = names

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; of an invalid value the error says the rule, without the words of pydantic."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            for theirs, ours in _PYDANTIC.items():
                error.message = error.message.replace(theirs, ours)
            raise


class InSections(SubcommandGroup):
    """A command whose help lists its subcommands in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections, of the subcommands that there are."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        for title, names in SECTIONS.items():
            rows = [(name, each.get_short_help_str(80)) for name in names if (each := found.get(name))]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def make_app(
    names: Collection[str], *, listed: Collection[str] = (), name: str = NAME, has_options: bool = True
) -> typer.Typer:
    """Return the command with these subcommands; no others are imported.

    Args:
        names: subcommands that can be run.
        listed: subcommands that the help only names.
        name: the command's name.
        has_options: whether it has options of its own.
    """
    app = _group(name, ABOUT, InSections, add_completion=has_options)
    app.callback()(_root if has_options else _no_options)
    groups: dict[str, typer.Typer] = {}
    for each in [*names, *listed]:
        place, line = SUBCOMMANDS[each]
        first, _, own = each.rpartition(" ")
        parent = groups.setdefault(first, _group(first, GROUPS[first])) if first else app
        found = _loaded(place) if each in names else _only_listed
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=own, cls=SubcommandGroup, short_help=line)
        else:
            parent.command(own, short_help=line)(found)
    for first, group in groups.items():
        app.add_typer(group, name=first, short_help=GROUPS[first])
    return app


def _group(
    name: str, about: str, cls: type[TyperGroup] = SubcommandGroup, *, add_completion: bool = False
) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=about,
        cls=cls,
        add_completion=add_completion,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # Rich would draw boxes, which not every terminal can show, and takes longer than most commands.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _loaded(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"cli.commands.{module}"), attribute)


def run(names: Collection[str], name: str) -> None:
    """Run the subcommand that the command line names.

    Args:
        names: subcommands that it may name.
        name: the command's name in its help.
    """
    wanted = subcommand_of(sys.argv[1:])
    is_completion = any(each.endswith("_COMPLETE") for each in os.environ)
    # Loaded modules stay, and garbage collection would take a tenth of the start.
    gc.disable()
    if wanted in names:
        app = make_app([wanted], name=name, has_options=False)
    elif is_completion:
        app = make_app(names, name=name)
    else:
        app = make_app([], listed=names, name=name, has_options=wanted not in GROUPS)
    gc.freeze()
    gc.enable()
    with standard_streams():
        app()


def subcommand_of(words: Sequence[str]) -> str:
    """Return the first word of a command line, or the first two where they name a subcommand."""
    two = " ".join(words[:2])
    return two if two in SUBCOMMANDS else next(iter(words), "")


def _only_listed() -> None:
    """Stand for a subcommand that is not loaded, because something stands before its name."""
    typer.echo(f"{NAME}: write the subcommand first, and nothing before it", err=True)
    raise typer.Exit(2)


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


def _no_options() -> None:
    """Stand before a subcommand."""
