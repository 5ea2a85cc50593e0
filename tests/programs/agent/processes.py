"""An agent as a process, over the library with NVML's ABI, which gcc compiles."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from testbed.nvidia import library
from tests.agent.support.node import AgentNode, node_folder


@contextlib.contextmanager
def driver_of(cards: Path) -> Iterator[None]:
    """Have processes that start while the context is open find the library and a file of cards."""
    if reason := library.why_not():
        pytest.fail(reason)
    with mock.patch.dict(os.environ, library.environment(cards)):
        yield


@contextlib.contextmanager
def node_for_processes(**options: object) -> Iterator[AgentNode]:
    """A node whose GPUs agents find that are processes."""
    with node_folder(**options) as node, driver_of(node.cards):
        yield node
