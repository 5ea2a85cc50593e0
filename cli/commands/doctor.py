"""fraction-injector doctor: finds faults of an installation, and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cli.cluster import ask
from cli.options import (
    RELEASE,
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    ReleaseOption,
    fail,
    release_of,
)
from cli.printing import say, say_json

if TYPE_CHECKING:
    from doctor.finding import ReportLine

FAILED = 1
"""Exit status if a check failed."""
WIDTH = len("warning")


def doctor(  # noqa: PLR0913 each is an option of the command
    node: Annotated[
        str | None, typer.Argument(show_default="all", help="Check the GPUs of only this node.")
    ] = None,
    *,
    release: ReleaseOption = RELEASE,
    try_namespace: Annotated[
        str,
        typer.Option(metavar="NAMESPACE", help="Namespace of the labelled pod that is created in a dry run."),
    ] = "default",
    no_trial: Annotated[
        bool, typer.Option("--no-trial", help="Create no pod, not even in a dry run.")
    ] = False,
    brief: Annotated[
        bool,
        typer.Option("--brief", help="Only whether all is well, and how much is free; no Secret is read."),
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Check an installation, from the driver to a denied pod: one line per check, with what to do.

    It reads from the API server, and tries a labelled pod in a dry run, which stores nothing. A check that
    needs a right that you lack is skipped, and its line names the right. Exit status: 0 nothing failed, 1 a
    check failed, 2 the API server does not answer.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from doctor.checks import CHECKS, run_checks  # noqa: PLC0415
    from doctor.reader import Scope, read_installation  # noqa: PLC0415

    namespace, name = release_of(release)
    tried = None if no_trial else try_namespace
    scope = Scope(namespace=namespace, name=name, node=node, try_namespace=tried, brief=brief)
    question = partial(read_installation, scope=scope)
    seen = ask(kubeconfig, context, question, f"{name} in {namespace} cannot be checked")
    end_with(run_checks(seen, [each for each in CHECKS if each.in_brief or not brief]), output)


def end_with(lines: Sequence[ReportLine], output: OutputFormat) -> NoReturn:
    """Print lines, and end the command with the exit status that they mean."""
    if output is OutputFormat.JSON:
        say_json(lines)
    else:
        say("\n".join(f"{line.level.ljust(WIDTH)}  {line.text}" for line in lines))
    if all(line.level == "skipped" for line in lines):
        fail("no check could be made: ask for the rights that the lines name")
    raise typer.Exit(FAILED if any(line.level == "failed" for line in lines) else 0)
