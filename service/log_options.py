"""How much is logged, and in which form; apart from the log, for command lines that load little."""

from __future__ import annotations

from typing import Literal, get_args

LogLevel = Literal["info", "warning", "error"]
"""The least that is written."""
LogFormat = Literal["auto", "json", "text"]
"""JSON lines, lines for people, or whichever fits who reads them."""
LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
