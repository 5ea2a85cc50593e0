"""`fraction-injector check`: checks policy files, and the values of charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import UNUSABLE, FilenameOption, OutputFormat, OutputOption, PoliciesOption, files_of
from cli.printing import say, say_json
from service.options import DEFAULT_POLICIES

if TYPE_CHECKING:
    from policies.model.problems import Problem


def check(
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
    policies: PoliciesOption = DEFAULT_POLICIES,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the tasks of ClearML's queues.")
    ] = "default",
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Check policies, also in the values of charts: every mistake with its line, and what to write instead.

    Each path is checked for itself: several values files are not merged, as Helm would.

    Exit status: 0 fine, 1 mistakes, 2 something cannot be read.
    """
    # Here and not above: help does not wait for the policies' code.
    from cli.checked_files import check_paths  # noqa: PLC0415

    results, all_read = check_paths(files_of(paths, filename), policies, namespace)
    if output is OutputFormat.JSON:
        say_json([_as_json(*each) for each in results])
    else:
        for level, found in results:
            text = found.rule if level == "ok" else f"{'note: ' * (level == 'note')}{found}"
            say(text, err=level == "error")
    if not all_read:
        raise typer.Exit(UNUSABLE)
    raise typer.Exit(1 if any(level == "error" for level, _ in results) else 0)


def _as_json(level: str, found: Problem) -> dict[str, Any]:
    place = {"file": found.file, "line": found.line, "path": found.path}
    return {"level": level, **place, "text": found.rule}
