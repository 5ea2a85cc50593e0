"""Structured logging: JSON lines for machines, plain lines on a terminal."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from service.options import LEVELS, LogFormat, LogLevel

MAX_WAITING_BYTES = 2**20
"""Bytes of lines that wait while standard error takes none."""
_STDERR = 2
_RETRY_SECONDS = 0.1
_LAST_SECONDS = 1.0
"""How long lines wait outside of an event loop and at the end of a process, where nothing else is served."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


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
        said = {"timestamp": datetime.now(UTC), "level": level, "logger": self._name, "event": event}
        _output.write(said | fields)


class _Output:
    """The destination of lines: standard error, without Python's buffers.

    In an event loop, the lines of one iteration are written together at its end: a system call for each line
    costs a busy webhook a sixth of its time. If the reader of a pipe stops, lines wait here up to a bound,
    and further ones are lost and counted: reviews, probes and signals are served all the same.
    """

    def __init__(self) -> None:
        self.render: Callable[[dict[str, Any]], bytes] = _encode
        self.levels: frozenset[str] = frozenset(LEVELS)
        self.lost = 0
        self._waiting = bytearray()
        self._lock = threading.RLock()
        """Of `_waiting`: threads log beside the loop. Never held while standard error is waited for."""
        self._due_in: asyncio.AbstractEventLoop | None = None

    def write(self, said: dict[str, Any]) -> None:
        """Write a line, at the latest at the end of the loop's iteration if standard error takes it."""
        line = self.render(said)
        with self._lock:
            if len(self._waiting) + len(line) >= MAX_WAITING_BYTES:
                self.lost += 1
            else:
                self._waiting += line + b"\n"
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.empty(_LAST_SECONDS)
            return
        if self._due_in is not loop:
            self._due_in = loop
            loop.call_soon(self._end_round, loop)

    def _end_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self.empty(0.0)
        if self._waiting:
            loop.call_later(_RETRY_SECONDS, self._end_round, loop)
        else:
            self._due_in = None

    def empty(self, seconds: float) -> None:
        """Write what waits, as far as standard error takes it within `seconds`."""
        end = time.monotonic() + seconds
        try:
            while self._waiting and _is_writable(max(0.0, end - time.monotonic())):
                with self._lock:
                    if self._waiting and _is_writable(0.0):
                        del self._waiting[: os.write(_STDERR, self._waiting[: select.PIPE_BUF])]
        except OSError:
            # The reader of the log is gone.
            with self._lock:
                self._waiting.clear()


def _is_writable(seconds: float) -> bool:
    """Whether a write of at most PIPE_BUF bytes does not block, now or within `seconds`."""
    poll = select.poll()
    poll.register(_STDERR, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def lost_lines() -> int:
    """Return the number of lines that this process could not write."""
    return _output.lost


def _text(line: dict[str, Any]) -> bytes:
    """Return a line for people: time, level, `logger: event`, and the other fields."""
    said = dict(line)
    time, level, logger, event = (said.pop(name) for name in ("timestamp", "level", "logger", "event"))
    fields = "".join(f" {name}={_printable(value)}" for name, value in said.items())
    event = _printable(f"{logger}: {event}")
    return f"{time:%Y-%m-%dT%H:%M:%SZ} {level:7} {event}{fields}".encode("utf-8", "replace")


def _printable(value: Any) -> str:
    """Return a value as one line of text without control characters: a terminal would obey them."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


_output = _Output()


@atexit.register
def write_rest() -> None:
    """Write the lines that still wait, as far as standard error takes them soon."""
    _output.empty(_LAST_SECONDS)


def configure_logging(level: LogLevel = "info", form: LogFormat = "auto") -> None:
    """Choose the format of log lines, and turn those of libraries into ours; call once per process."""
    _output.levels = frozenset(LEVELS[LEVELS.index(level) :])
    if form == "text" or (form == "auto" and sys.stderr.isatty()):
        _output.render = _text
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
