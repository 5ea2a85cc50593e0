"""Options of what a process logs; apart from the others, for a command that loads as little as it can."""

from __future__ import annotations

from typing import Annotated

import typer

from service.log import LogFormat, LogLevel

LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The least that is logged; decisions are of level info.")
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", help="JSON lines, lines for people, or by whether a terminal reads them."),
]
