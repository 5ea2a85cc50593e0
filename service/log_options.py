"""Log level and format, separate from the log for command lines that import little."""

from __future__ import annotations

from typing import Literal, get_args

LogLevel = Literal["info", "warning", "error"]
"""The minimum level that is written."""
LogFormat = Literal["auto", "json", "text"]
"""JSON lines, lines for people, or whichever fits the output."""
LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
