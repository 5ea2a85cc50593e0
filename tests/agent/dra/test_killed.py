"""An agent that is killed at any write leaves each claim prepared once, and each container its limit."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from agent.dra.checkpoint import PreparedClaims
from agent.dra.plugin import DraPlugin
from agent.dra.specifications import ClaimSpecifications, claims_with_files
from agent.gpu import Gpu
from agent.kubelet_api import dra_pb2 as api
from agent.options import AgentOptions
from tests.agent.support.dra import NODE, OTHER, UID, ApiServer
from tests.agent.support.node import PER_GPU, agent_with

CARD = Gpu(index=0, uuid="GPU-0", model="A100", memory_mib=40960)
ONE, TWO = (
    api.Claim(namespace="default", name="one", uid=UID),
    api.Claim(namespace="default", name="two", uid=OTHER),
)


class KilledError(BaseException):
    """Nothing of the process runs after it."""


def agent_on(root: Path) -> DraPlugin:
    server = ApiServer()
    server.add_claim({"share": "250k"}, name="one", uid=UID)
    server.add_claim({"share": "250k"}, name="two", uid=OTHER, pod="another-pod")
    preparation = Mock(check_files=AsyncMock(), names=SimpleNamespace(names={"GPU-0": "nvidia.com/gpu=0"}))
    agent, claims = agent_with([CARD], options=AgentOptions(node=NODE)), PreparedClaims(root, "boot")
    specifications = ClaimSpecifications(root / "cdi", PER_GPU, str(root), {"GPU-0": CARD})
    plugin = DraPlugin("", agent, server, claims, specifications, preparation)
    plugin.restore()
    return plugin


async def work_of_a_kubelet(plugin: DraPlugin) -> None:
    await plugin.NodePrepareResources(api.NodePrepareResourcesRequest(claims=[ONE, TWO]), None)
    await plugin.NodeUnprepareResources(api.NodeUnprepareResourcesRequest(claims=[ONE]), None)


def killed_at(step: int, patched: pytest.MonkeyPatch) -> None:
    """Let the process die in one of its writes, renamings or removals: a write is then half done."""
    steps = itertools.count()
    for name in ("write_bytes", "replace", "unlink"):
        real = getattr(Path, name)

        def dying(path, *given, real=real, **more):
            if next(steps) == step:
                if real.__name__ == "write_bytes":
                    real(path, given[0][: len(given[0]) // 2])
                raise KilledError
            return real(path, *given, **more)

        patched.setattr(Path, name, dying)


async def test_it_is_as_if_the_kubelet_had_asked_once(tmp_path):
    for step in itertools.count():
        root, was_killed = tmp_path / str(step), False
        with pytest.MonkeyPatch.context() as patched:
            plugin = agent_on(root)
            killed_at(step, patched)
            try:
                await work_of_a_kubelet(plugin)
            except KilledError:
                was_killed = True
        again = agent_on(root)
        assert claims_with_files(root / "cdi") == PreparedClaims(root, "boot").claims.keys()
        await work_of_a_kubelet(again)
        assert claims_with_files(root / "cdi") == PreparedClaims(root, "boot").claims.keys() == {OTHER}
        [file] = (root / "cdi").glob("*.json")
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=10240m" in file.read_text()
        if not was_killed:
            break
    assert step > 6  # the writes of two claims and the removal of one
