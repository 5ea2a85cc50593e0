"""Structured logging: JSON lines where a machine reads them, colours on a terminal."""

from __future__ import annotations

import logging
import sys

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_encode = msgspec.json.Encoder(enc_hook=str).encode


def configure_logging() -> None:
    """Send log lines to standard error; call once, at the start of a process."""
    on_terminal = sys.stderr.isatty()
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if on_terminal:
        structlog.configure(
            processors=[*shared, structlog.dev.ConsoleRenderer(exception_formatter=_one_line)],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[*shared, _json_line],
            logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
            cache_logger_on_first_use=True,
        )
    _adopt_library_logs()


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Give a logger whose lines carry `logger: name`; ask after `configure_logging`.

    It is bound here and now: structlog's lazy proxy would assemble itself anew for every line.
    """
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind(logger=name)
    return logger


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return _encode(event)


class _LibraryLogs(logging.Handler):
    """Turns warnings of libraries into our own lines; a traceback becomes its last line."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields = {"error": f"{type(error).__name__}: {error}"} if error is not None else {}
        get_logger(record.name).warning(record.getMessage(), **fields)


def _adopt_library_logs() -> None:
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLogs()]
    root.setLevel(logging.WARNING)


def _one_line(file: object, error: object) -> None:
    """Print no traceback: a healthy process has none, and a broken one says the kind of error."""
