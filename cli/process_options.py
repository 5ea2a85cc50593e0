"""Options that webhook, controller and agent share; apart from the others, because the agent loads little."""

from __future__ import annotations

from typing import Annotated

import typer

from service.log_options import LogFormat, LogLevel

LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The least that is logged; decisions are of level info.")
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", help="JSON lines, lines for people, or by whether a terminal reads them."),
]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
TlsNameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tls-name",
        metavar="NAME",
        show_default="localhost",
        help="Name that the certificate must be good for.",
    ),
]
StopDelayOption = Annotated[
    float,
    typer.Option("--stop-delay", min=0, help="Seconds to serve on after SIGTERM, unready, before draining."),
]
LOOPBACK = "127.0.0.1"
