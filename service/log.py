"""Structured logging: JSON lines for machines, coloured lines on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from service.options import LEVELS, LogFormat, LogLevel

_STDERR = 2
_COLOURS = {"info": "\033[32m", "warning": "\033[33m", "error": "\033[31m"}

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Line(msgspec.Struct, gc=False):
    """The fields of every line. A line written for each request is a struct with its own fields as well."""

    timestamp: datetime
    level: str
    logger: str
    event: str


def write_line(line: Line) -> None:
    """Write a line whose fields are a struct: for events that happen thousands of times a second."""
    if line.level in _output.levels:
        _output.write(line)


class Logger:
    """Writes lines that carry `logger: name`. Fields that JSON cannot represent become text."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **fields: Any) -> None:
        """Log what happens in normal operation."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what an admin may want to look into."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what an admin has to look into."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if level not in _output.levels:
            return
        line = {"timestamp": datetime.now(UTC), "level": level, "logger": self._name, "event": event}
        _output.write(line | fields)


class _Output:
    """The destination of lines: standard error, without Python's buffers, whole lines in each write.

    In an event loop, the lines of one iteration are written together at its end: a system call for each line
    costs a busy webhook a sixth of its time.
    """

    def __init__(self) -> None:
        self.render: Callable[[Line | dict[str, Any]], bytes] = _encode
        self.levels: frozenset[str] = frozenset(LEVELS)
        self._round: list[bytes] = []

    def write(self, said: Line | dict[str, Any]) -> None:
        """Write a line, at the latest at the end of the loop's iteration."""
        line = self.render(said)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _write_now(line + b"\n")
            return
        if not self._round:
            loop.call_soon(self._end_round)
        self._round.append(line)

    def _end_round(self) -> None:
        lines, self._round = self._round, []
        _write_now(b"\n".join([*lines, b""]))


def _write_now(lines: bytes) -> None:
    # The reader of the log may be gone; a review must be answered all the same.
    with contextlib.suppress(OSError):
        while lines:
            lines = lines[os.write(_STDERR, lines) :]


def _parts(line: Line | dict[str, Any]) -> tuple[datetime, str, str, dict[str, Any]]:
    """Return time, level, `logger: event`, and the other fields of a line."""
    said = msgspec.to_builtins(line, builtin_types=[datetime]) if isinstance(line, Line) else dict(line)
    time, level, logger, event = (said.pop(name) for name in ("timestamp", "level", "logger", "event"))
    return time, level, f"{logger}: {event}", said


def _coloured(line: Line | dict[str, Any]) -> bytes:
    time, level, event, said = _parts(line)
    fields = " ".join(f"\033[36m{name}\033[0m={_printable(value)}" for name, value in said.items())
    start = f"\033[2m{time:%H:%M:%S}\033[0m {_COLOURS[level]}{level:7}\033[0m"
    return f"{start} \033[1m{_printable(event)}\033[0m {fields}".encode("utf-8", "replace")


def _plain(line: Line | dict[str, Any]) -> bytes:
    time, level, event, said = _parts(line)
    fields = "".join(f" {name}={_printable(value)}" for name, value in said.items())
    return f"{time:%Y-%m-%dT%H:%M:%SZ} {level:7} {_printable(event)}{fields}".encode("utf-8", "replace")


def _printable(value: Any) -> str:
    """Return a value as one line of text without control characters: a terminal would obey them."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


_output = _Output()


def configure_logging(level: LogLevel = "info", form: LogFormat = "auto") -> None:
    """Choose the format of log lines, and turn those of libraries into ours; call once per process."""
    _output.levels = frozenset(LEVELS[LEVELS.index(level) :])
    if form == "text" or (form == "auto" and sys.stderr.isatty()):
        _output.render = _coloured if sys.stderr.isatty() else _plain
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLogs()]
    root.setLevel(logging.WARNING)


def get_logger(name: str) -> Logger:
    """Return the logger of a part of the process."""
    return Logger(name)


class _LibraryLogs(logging.Handler):
    """Turns warnings of libraries into our own lines; a traceback becomes its last line."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields = {"error": f"{type(error).__name__}: {error}"} if error is not None else {}
        get_logger(record.name).warning(record.getMessage(), **fields)
