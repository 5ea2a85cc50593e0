"""`fraction-injector check`: checks policy files, and the values of charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import UNUSABLE, FilenameOption, OutputFormat, OutputOption, PoliciesOption, files_of
from cli.printing import say, say_json
from policies.model.problems import Problem
from service.options import DEFAULT_POLICIES

if TYPE_CHECKING:
    from cli.checked_files import CheckLine


def check(  # noqa: PLR0913 each is an option of the command
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            show_default=False,
            help="Policy folders or files, or values of a chart: of this one, or of a ClearML agent;"
            " - is standard input.",
        ),
    ] = None,
    *,
    filename: FilenameOption = None,
    inventory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Nodes as printed by kubectl, to show how many pods of a queue fit."
        ),
    ] = None,
    policies: PoliciesOption = DEFAULT_POLICIES,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the tasks of ClearML's queues.")
    ] = "default",
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Check policies and the values of charts: every mistake with its line, and what to write instead.

    Each path is checked for itself: several values files are not merged, as Helm would.

    Exit status: 0 fine, 1 mistakes, 2 something cannot be read.
    """
    # Here and not above: help does not wait for the policies' code.
    from cli.checked_files import check_paths  # noqa: PLC0415

    lines, all_read = check_paths(files_of(paths, filename), policies, inventory, namespace)
    if output is OutputFormat.JSON:
        say_json(lines)
    else:
        for line in lines:
            _print(line)
    if not all_read:
        raise typer.Exit(UNUSABLE)
    raise typer.Exit(1 if any(line.level == "error" for line in lines) else 0)


def _print(line: CheckLine) -> None:
    if line.level == "ok":
        say(line.text)
        return
    problem = str(Problem(line.file, line.line, line.path, line.text))
    say(f"note: {problem}" if line.level == "note" else problem, err=line.level == "error")
