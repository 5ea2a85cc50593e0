"""A node for an agent: a driver and its GPUs, NVIDIA's CDI specification, a limiter and a kubelet."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import yaml
from prometheus_client import CollectorRegistry

from agent.gpu import Gpu
from agent.kubelet import Kubelet
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.options import AgentOptions
from agent.parts import Agent
from agent.process import AgentProcess
from agent.settings import AgentPolicy, LimiterPart
from agent.state import AgentState
from testbed.nvidia.cards import Card, NvmlNode
from tests.agent.support.kubelet import PATIENCE_S, FakeKubelet, kubelet_in, until
from tests.agent.support.nvml_library import NvmlLibrary, in_use

HAMI = LimiterPart(
    name="hami-core",
    env=(
        ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/cache/{container}.cache"),
        ("LIBCUDA_LOG_LEVEL", "1"),
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m"),
    ),
    preload="/usr/local/vgpu/libvgpu.so",
    library_path="/usr/local/vgpu",
    cache_path="/cache",
    cache_size="8Mi",
)
STAND_IN = """
import json, sys
state = json.load(sys.stdin)
try:
    process = json.load(open(f"{state['bundle']}/config.json"))["process"]
except (OSError, ValueError) as error:
    sys.exit(print(f"skipping: {error}", file=sys.stderr))  # NVIDIA's ends well, too, and limits nothing
print(json.dumps([state["pid"], sys.argv[1:], process["env"]]))
"""
"""Does as NVIDIA's program does up to the driver: reads the state, and by that the configuration."""
PER_GPU = AgentPolicy("default", "per-gpu", "nvidia.com/gpu-{index}", 8, 0, HAMI)
POOLED = AgentPolicy("default", "pooled", "nvidia.com/gpu", 8, 0, HAMI)


def card(index: int, memory_mib: int = 40960, **more: Any) -> Card:
    """One GPU; cards are written in the order of their indices."""
    return Card(
        **{"uuid": f"GPU-{index}", "name": "NVIDIA A100", "minor": index, "memory_mib": memory_mib, **more}
    )


def ids(index: int, *numbers: int) -> list[str]:
    return [f"GPU-{index}::{number}" for number in numbers]


def agent_with(
    gpus: Iterable[Gpu] = (),
    policy: AgentPolicy = PER_GPU,
    options: AgentOptions | None = None,
    source: Any = None,
) -> Agent:
    """The parts of an agent that does not run."""
    options, registry = options or AgentOptions(), CollectorRegistry()
    kubelet, metrics = Kubelet(Path(options.kubelet_dir)), AgentMetrics(registry)
    return Agent(options, policy, AgentState(gpus), source, kubelet, metrics, registry, driver_lacks="")


class AgentNode:
    """A node's folders, with a driver's library for this process, and a file of cards for that in C."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.library = NvmlLibrary()
        self.cards = root / "cards"
        self.cdi = root / "cdi"
        (root / "state" / "library").mkdir(parents=True)
        (root / "state" / "library" / "libvgpu.so").touch()
        self.cdi.mkdir()
        folders = {"kubelet_dir": "", "state_dir": "state", "container_logs": "logs"}
        folders |= {name: name for name in ("policies", "proc")}
        settings = {name: str(root / folder) for name, folder in folders.items()}
        settings |= {"cdi_dirs": (str(self.cdi),), "cdi_enabled": True, "health_port": 0}
        self.options = AgentOptions(**{**settings, **options})

    def write_gpus(self, *cards: Card, **more: Any) -> None:
        """Say which GPUs there are, and what happened to them or what their driver can."""
        self.library.node = NvmlNode(cards, **more)
        self.library.node.write(self.cards)

    def write_numa_node(self, card: Card, number: int) -> None:
        slot = self.root / "pci" / card.bus
        slot.mkdir(parents=True)
        (slot / "numa_node").write_text(f"{number}\n")

    def write_process(self, pid: int, container: str, container_id: str, **files: str) -> None:
        """Have a process run in a container, POD_NAMESPACE_NAME, with more files that tell of it."""
        (self.root / "logs").mkdir(exist_ok=True)
        (self.root / "logs" / f"{container}-{container_id}.log").touch()
        (self.root / "proc" / str(pid)).mkdir(parents=True)
        for name, text in {"cgroup": f"0::/kubepods/pod1/{container_id}\n", **files}.items():
            (self.root / "proc" / str(pid) / name).write_text(text)

    def open_driver(self) -> Nvml:
        return Nvml(self.root / "pci", self.root / "cgroup")

    def take_control_groups_of_version_2(self) -> None:
        """Have the node's control groups be what limits by the driver need."""
        (self.root / "cgroup").mkdir()
        (self.root / "cgroup" / "cgroup.controllers").touch()

    def write_card_names(self, *names: str, kind: str = "nvidia.com/gpu", hook: str = "chmod") -> None:
        """Write what NVIDIA's toolkit would, with a hook for each device."""
        program = self.root / "nvidia-cdi-hook"
        program.write_text(f"#!{sys.executable}\n{STAND_IN}")
        program.chmod(0o755)
        common = {"hookName": "createRuntime", "path": str(program), "env": ["NVIDIA_CTK_DEBUG=false"]}
        hooks = {name: {**common, "args": ["nvidia-cdi-hook", hook, "--gpu-id", name]} for name in names}
        devices = [{"name": name, "containerEdits": {"hooks": [each]}} for name, each in hooks.items()]
        content = {"cdiVersion": "0.5.0", "kind": kind, "devices": devices}
        (self.cdi / "nvidia.yaml").write_text(yaml.safe_dump(content))

    def specification(self, index: int) -> dict[str, Any]:
        """Our devices of a card, by name."""
        content = json.loads((self.cdi / f"clearml-injector.io-slices-GPU-{index}.json").read_text())
        return {f"{content['kind']}={each['name']}": each["containerEdits"] for each in content["devices"]}


@contextlib.asynccontextmanager
async def running(
    node: AgentNode, policy: AgentPolicy = PER_GPU, source: Nvml | None = None, api: Any = None
) -> AsyncIterator[AgentProcess]:
    source = source or node.open_driver()
    process = AgentProcess(node.options, policy, source, api)
    task = asyncio.ensure_future(process.serve())
    try:
        yield process
    finally:
        process.stop()
        async with asyncio.timeout(PATIENCE_S):
            await task
        await asyncio.to_thread(source.close)


@contextlib.contextmanager
def node_folder(**options: Any) -> Iterator[AgentNode]:
    """A node whose files are gone when the context ends."""
    # Not below a test's own folder: paths of sockets have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        node = AgentNode(Path(folder), **options)
        with (
            in_use(node.library),
            # An agent that stops waits for the thread that waits for events.
            mock.patch("agent.health.EVENT_SECONDS", 0.1),
        ):
            yield node


@contextlib.asynccontextmanager
async def node_with(*cards: Card, **options: Any) -> AsyncIterator[tuple[AgentNode, FakeKubelet]]:
    """A node with GPUs, their names and a kubelet, and without an agent."""
    with node_folder(**options) as node:
        node.write_gpus(*cards)
        node.write_card_names(*(card.uuid for card in cards))
        async with kubelet_in(node.root) as kubelet:
            yield node, kubelet


@contextlib.asynccontextmanager
async def served(
    *cards: Card, policy: AgentPolicy = PER_GPU, **options: Any
) -> AsyncIterator[tuple[AgentNode, FakeKubelet]]:
    """A node whose agent has all its GPUs registered."""
    async with node_with(*cards, **options) as (node, kubelet), running(node, policy):
        names = [policy.resource.replace("{index}", str(index)) for index in range(len(cards))]
        for name in names:
            await kubelet.until_offered(name, policy.slices_per_gpu * names.count(name))
        yield node, kubelet


async def until_says(process: AgentProcess, missing: str | None = "") -> AgentState:
    """Wait until an agent knows its GPUs, and says that this is missing; return its state."""

    def says() -> bool:
        told = process.state.missing if process.state is not None else ""
        return process.state is not None and (told is None if missing is None else missing in str(told))

    await until(says)
    return process.state


def run_hook(hook: dict[str, Any], state: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a hook for a container in this state, as a runtime does."""
    variables = dict(each.split("=", 1) for each in hook["env"])
    how = {"executable": hook["path"], "env": variables, "input": json.dumps(state, separators=(",", ":"))}
    return subprocess.run(hook["args"], check=False, capture_output=True, text=True, **how)


async def ready(process: AgentProcess) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{process.port}", timeout=PATIENCE_S) as client:
        return await client.get("/readyz")
