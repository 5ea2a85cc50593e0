"""A driver for tests: the library with NVML's ABI in this process and in those that it starts."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from testbed.nvidia import library


@contextlib.contextmanager
def driver_of(cards: Path) -> Iterator[None]:
    """Have NVML's library read a file of cards while the context is open, here and in processes made here."""
    if reason := library.why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    library.load()
    with mock.patch.dict(os.environ, library.environment(cards)):
        yield
