"""The subcommands by name; only the requested one is loaded, because loading all takes a second longer."""

from __future__ import annotations

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
OF_PROGRAMS = ("machine submit",)
"""Subcommands whose options end where the command of another program begins."""
PROCESSES = ("webhook", "controller", "agent")
"""Subcommands that run a process of the chart."""


class QuietGroup(TyperGroup):
    """A command with subcommands. It reads no options of its own before a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the name of a subcommand: for an option that is not given, Typer loads pydantic."""
        names, options = ctx.help_option_names, self.params
        if args and not args[0].startswith("-"):
            ctx.help_option_names, self.params = [], []
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.help_option_names, self.params = names, options


class Subcommands(QuietGroup):
    """All subcommands; one is loaded when it is asked for, because loading all takes a second longer."""

    first = ""
    """First word of the subcommands of a group."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Typer compares a misspelt name with these keys.
        self.commands: Any = dict.fromkeys(self._lines())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 the base class's signature
        """Return the names of subcommands and groups."""
        return list(self._lines())

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002 the base class's signature
        """Load a subcommand; None if there is none of this name."""
        if name not in self._lines():
            return None
        if not self.first and name in GROUPS:
            return typer.main.get_command(_app(name, GROUPS[name], OfMachine))
        full_name = f"{self.first} {name}".strip()
        place, line = SUBCOMMANDS[full_name]
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"cli.commands.{module}"), attribute)
        parent = _app(NAME, ABOUT, QuietGroup)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name, cls=QuietGroup, short_help=line)
        else:
            settings = {"allow_interspersed_args": full_name not in OF_PROGRAMS}
            parent.command(name, short_help=line, context_settings=settings)(found)
        return typer.main.get_group(parent).commands[name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 as above
        """Write the subcommands in sections, and load none."""
        lines = self._lines()
        for title, names in {"Commands": lines}.items() if self.first else SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, lines[name]) for name in names])

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; of an invalid value the error says the rule, without the words of pydantic."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            for theirs, ours in _PYDANTIC.items():
                error.message = error.message.replace(theirs, ours)
            raise

    def _lines(self) -> dict[str, str]:
        split = {name.rpartition(" ")[::2]: line for name, (_, line) in SUBCOMMANDS.items()}
        own = {name: line for (first, name), line in split.items() if first == self.first}
        return own if self.first else own | GROUPS


class OfMachine(Subcommands):
    """The subcommands that begin with `machine`."""

    first = "machine"


def make_app(name: str = NAME) -> typer.Typer:
    """Return the command under a name; it imports no subcommand yet."""
    app = _app(name, ABOUT, Subcommands, add_completion=True)
    app.callback()(_root)
    return app


def _app(name: str, about: str, cls: type[TyperGroup], *, add_completion: bool = False) -> typer.Typer:
    app = typer.Typer(
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
    app.callback()(_no_options)
    return app


def run(name: str) -> None:
    """Run the subcommand that the command line names; `name` is the command's name in its help."""
    with standard_streams():
        make_app(name)()


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
