"""Real containerds with CDI on and off, and what the agent makes of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.options import AgentOptions
from agent.runtime import cdi_problem, stated_runtime
from testbed.nodes import parts
from testbed.nodes.agent import AgentOnNode
from testbed.nodes.node import SOCKET, containerd_configuration
from testbed.nodes.parts import Parts
from testbed.nodes.sandbox import Reaper, Sandbox
from testbed.process import Process, eventually
from tests.conftest import Say
from tests.real_nodes.agent_pods import GPUS


class Machine:
    """A machine with a containerd and no kubelet."""

    def __init__(self, sandbox: Sandbox, built: Parts) -> None:
        self._sandbox = sandbox
        self._built = built
        self._containerd: Process | None = None
        self._starts = 0

    def start(self, program: Path, *, cdi: bool) -> None:
        """Start a containerd in place of the one before, with CDI on or off in its configuration."""
        if self._containerd is not None:
            self._containerd.stop()
        self._starts += 1
        folder = self._sandbox.folder
        configuration = folder / "containerd.toml"
        configuration.write_text(containerd_configuration(folder, self._built, cdi=cdi))
        name = f"containerd-{self._starts}"
        command = [str(program), f"--config={configuration}"]
        self._containerd = self._sandbox.start(name, command, self._built.environment)
        log = folder / f"{name}.log"
        self._containerd.until_ready(lambda: "successfully booted" in log.read_text(), 60)

    @property
    def agent(self) -> AgentOnNode:
        return AgentOnNode(self._sandbox, SOCKET, GPUS, self._built.environment)

    @property
    def options(self) -> AgentOptions:
        """What such an agent reads of the runtime, once it was started."""
        return AgentOptions(runtime_file=str(self._sandbox.folder / "agent" / "runtime"))


@pytest.fixture
def machine(possible, say: Say) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="containerd-"))
    folder.chmod(0o711)
    reaper = Reaper()
    reaper.keep("folder", folder)
    sandbox = Sandbox("machine", folder / "m", reaper)
    sandbox.boot()
    (sandbox.folder / "cni").mkdir()
    yield Machine(sandbox, parts.build(say))
    sandbox.halt()
    reaper.clean_up()


def started(agent: AgentOnNode, said: str) -> None:
    before = agent.log.read_text() if agent.log.exists() else ""
    agent.start()
    eventually(lambda: said in agent.log.read_text()[len(before) :], f"the agent says {said!r}")


def test_an_agent_offers_nothing_until_containerds_cdi_is_on(machine, say):
    program = parts.build_with_cdi_switch(say)
    machine.start(program, cdi=False)
    agent = machine.agent
    started(agent, "CDI is off in containerd://")
    runtime = stated_runtime(machine.options)
    assert runtime.version.removeprefix("containerd://").startswith(("2.2.1", "v2.2.1"))
    assert cdi_problem(machine.options).startswith("CDI is off in containerd://")
    assert "the kubelet is away" not in agent.log.read_text()
    agent.stop()
    machine.start(program, cdi=True)
    started(agent, "the kubelet is away")
    assert stated_runtime(machine.options).cdi is True
    assert cdi_problem(machine.options) is None
    agent.stop()


def test_a_containerd_without_the_switch_obeys_cdi_whatever_its_configuration_says(machine, say):
    machine.start(parts.build(say).folder / "containerd", cdi=False)
    agent = machine.agent
    started(agent, "the kubelet is away")
    assert stated_runtime(machine.options).cdi is None
    assert cdi_problem(machine.options) is None
    agent.stop()
