"""Options of commands that name an installation of the chart."""

from __future__ import annotations

from typing import Annotated

import typer

CHART_NAME = "fraction-injector"
CHART_NAMESPACE = "gpu-fraction-injector"

NameOption = Annotated[
    str,
    typer.Option("--name", help="Name of the installation, which is that of its webhook configuration."),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the release.")]
