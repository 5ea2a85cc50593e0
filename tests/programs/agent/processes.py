"""An agent as a process, over the library with NVML's ABI, which gcc compiles."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from testbed.nodes.agent import LIMITS_BY_AGENT
from testbed.nvidia import library
from testbed.product import COMMAND
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


def started(node: AgentNode, log: Path) -> "subprocess.Popen[bytes]":
    """Start an agent."""
    policies = log.with_name("policies")
    policies.mkdir()
    (policies / "default.yaml").write_text(LIMITS_BY_AGENT)
    options = [
        f"--policies={policies}",
        f"--kubelet-dir={node.root}",
        f"--state-dir={node.options.state_dir}",
        f"--cdi-dir={node.cdi}",
        "--cdi-enabled",
        "--health-port=0",
    ]
    with log.open("wb") as output:
        return subprocess.Popen([COMMAND, "agent", *options], stderr=output)


def rss_mib(pid: int) -> float:
    """What a process has in memory."""
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024
