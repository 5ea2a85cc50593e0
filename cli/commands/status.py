"""fraction-injector status: whether all is well."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from cli.cluster import ask
from cli.installation_options import CHART_NAME, CHART_NAMESPACE, NameOption, NamespaceOption
from cli.options import ContextOption, KubeconfigOption, OutputFormat, OutputOption, fail
from cli.printing import say, say_json, table

if TYPE_CHECKING:
    from doctor.overview import StatusLine

NOT_WELL = 1
"""Exit status if something failed."""


def status(
    *,
    name: NameOption = CHART_NAME,
    namespace: NamespaceOption = CHART_NAMESPACE,
    output: OutputOption = OutputFormat.TEXT,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show whether all is well: a line each for webhook, controller, certificates, policies in force, agents,
    held nodes, free slices and what waits.

    It reads objects and the metrics of webhook and controller through the API server, and no Secrets; what
    your rights do not allow is skipped, and its line names the right. Exit status: 0 all is well, 1 something
    failed, 2 nothing can be read. `fraction-injector doctor` says more.
    """  # noqa: D205 the help's first paragraph
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from doctor.overview import overview  # noqa: PLC0415
    from doctor.reader import read_overview  # noqa: PLC0415

    question = partial(read_overview, namespace=namespace, name=name)
    lines = overview(
        ask(kubeconfig, context, question, f"the status of {name} in {namespace} cannot be read")
    )
    if output is OutputFormat.JSON:
        say_json(lines)
    else:
        say(table([_row(line) for line in lines]))
    if all(line.level == "skipped" for line in lines):
        fail("nothing can be read: ask for the rights that the lines name")
    raise typer.Exit(NOT_WELL if any(line.level == "failed" for line in lines) else 0)


def _row(line: StatusLine) -> tuple[str, str, str]:
    return line.level, line.about, f"{line.what} -- {line.advice}" if line.advice else line.what
