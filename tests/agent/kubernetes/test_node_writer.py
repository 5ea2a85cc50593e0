"""The writer of the GpuNode: on change alone, and again after a failure."""

import asyncio
from types import SimpleNamespace

import pytest

from agent.gpu import Gpu
from agent.kubernetes import node_writer
from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.node_writer import NodeWriter
from agent.state import AgentState

GPU = Gpu(0, "GPU-a", "NVIDIA A100-40GB", 40960)


class Api:
    """An API server that keeps what is applied, and fails as often as it is told to."""

    def __init__(self, failures=0):
        self.failures = failures
        self.applied = []

    def get(self, path):
        assert path == "/api/v1/nodes/gpu-1"
        return {"metadata": {"uid": "uid-1"}}

    def apply(self, path, body):
        if self.failures:
            self.failures -= 1
            raise ApiServerError("the API server answered 503: busy")
        self.applied.append((path, body["status"]))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(node_writer, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(node_writer, "MAX_RETRY_SECONDS", 0.001)


def writes(api, change=lambda state: None, wanted=1):
    """What is written until so much was, a change being made after the first."""

    async def run():
        state = AgentState([GPU])
        source = SimpleNamespace(list_gpus=lambda: (GPU,))
        agent = SimpleNamespace(state=state, source=source)
        task = asyncio.ensure_future(NodeWriter(api, "gpu-1", agent).run())
        while not api.applied:  # noqa: ASYNC110 - it is applied in a thread
            await asyncio.sleep(0)
        change(state)
        while len(api.applied) < wanted:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))
    return api.applied


def test_the_object_is_written_under_the_nodes_name():
    [(path, status)] = writes(Api())
    assert path == "/apis/clearml-injector.io/v1alpha1/gpunodes/gpu-1"
    assert [gpu["uuid"] for gpu in status["gpus"]] == ["GPU-a"]


def test_a_change_is_written_too():
    _, (_, status) = writes(Api(), lambda state: state.mark_unhealthy("GPU-a", "Xid 79"), 2)
    assert status["gpus"][0]["why"] == "Xid 79"


def test_what_could_not_be_written_is_tried_again():
    assert len(writes(Api(failures=3))) == 1
