"""Standard output and error that no text and no reader can break."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

NOT_WRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)
CANNOT_WRITE = 74
"""Exit status if the output cannot be written, EX_IOERR of sysexits.h."""


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Make the streams take every text, and end the command silently if nobody reads its output any more."""
    # A stream is None if it was closed when the process started.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 it lives as long as we do
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115 as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in NOT_WRITTEN or error.filename is not None:
            raise
        _leave(error)


def _leave(error: OSError) -> NoReturn:
    """End the command. The interpreter must not flush again, which would print a traceback."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"fraction-injector: cannot write: {error.strerror}\n")
    raise SystemExit(CANNOT_WRITE)
