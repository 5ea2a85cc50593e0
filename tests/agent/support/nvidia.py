"""NVIDIA's own programs, for the tests that run them."""

import os
from collections.abc import Callable

import pytest

from testbed.nvidia import parts


def nvidia_programs(say: Callable[[str], None]) -> parts.NvidiaParts:
    """Return them, built; a test without them fails with the reason."""
    reason = parts.why_not() or ("device nodes are made by root alone" if os.geteuid() else None)
    if reason:
        pytest.fail(reason)
    return parts.build(say)
