"""The writer of the GpuNode: only on change, and again after a failure."""

import asyncio
from types import SimpleNamespace

import pytest

from agent.files import BOOT_ID
from agent.gpu import Gpu
from agent.kubernetes import node_writer
from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.node_writer import NodeWriter
from agent.options import AgentOptions
from tests.agent.support.node import agent_with

GPU = Gpu(0, "GPU-a", "NVIDIA A100-40GB", 40960)


class Api:
    """An API server that keeps what is applied, and fails as often as the test says."""

    def __init__(self, failures=0):
        self.failures = failures
        self.uid = "uid-1"
        self.applied = []
        self.owners = []

    def get(self, path):
        assert path == "/api/v1/nodes/gpu-1"
        return {"metadata": {"uid": self.uid}}

    def apply(self, path, body):
        if self.failures:
            self.failures -= 1
            raise ApiServerError("the API server answered 503: busy")
        self.owners += [each["uid"] for each in body["metadata"]["ownerReferences"]]
        self.applied.append((path, body["status"]))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(node_writer, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(node_writer, "SECONDS_UNTIL_FIRST_WRITE", 0.0)
    monkeypatch.setattr(node_writer, "MAX_RETRY_SECONDS", 0.001)


def writes(api, change=lambda state: None, wanted=1, begin=lambda state: None, proc="/nowhere"):
    """What is written until so much was, changes being made after the beginning and after the first."""

    async def run():
        source = SimpleNamespace(list_gpus=lambda: (GPU,))
        agent = agent_with([GPU], options=AgentOptions(proc=str(proc)), source=source)
        task = asyncio.ensure_future(NodeWriter(api, "gpu-1", agent).run())
        for _ in range(10):
            await asyncio.sleep(0)
        begin(agent.state)
        while not api.applied:  # noqa: ASYNC110 - it is applied in a thread
            await asyncio.sleep(0)
        change(agent.state)
        while len(api.applied) < wanted:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 60))
    return api.applied


def register(state):
    state.set_registration("nvidia.com/gpu-0", None)


def test_an_agent_that_starts_says_nothing_until_it_is_registered(monkeypatch):
    """What an agent said that was killed is believed on meanwhile: nothing is held for its successor."""
    monkeypatch.setattr(node_writer, "SECONDS_UNTIL_FIRST_WRITE", 30.0)
    [(_, status), _] = writes(Api(), begin=register)
    assert status["registered"] is True


def test_what_could_not_be_written_is_tried_again_and_a_change_is_written_too():
    _, (_, status) = writes(Api(failures=3), lambda state: state.mark("GPU-a", "Xid 79"), 2)
    assert status["gpus"][0]["why"] == "Xid 79"


def test_an_object_that_may_have_been_deleted_is_written_again(monkeypatch):
    monkeypatch.setattr(node_writer, "SECONDS_UNTIL_WRITTEN_AGAIN", 0.001)
    first, second, *_ = writes(Api(), wanted=2)
    assert first == second


def test_an_agent_that_ends_withdraws_its_report(tmp_path):
    (tmp_path / BOOT_ID).parent.mkdir(parents=True)
    (tmp_path / BOOT_ID).write_text("6f0c2d3e-1111-4222-8333-444455556666\n")
    *_, (_, before), (_, last) = writes(Api(), register, 2, proc=tmp_path)
    assert (before["registered"], last["registered"]) == (True, False)
    assert last["missing"] == "the agent has ended: look for its pod on the node"
    assert last["gpus"] == before["gpus"]
    assert before["bootID"] == "6f0c2d3e-1111-4222-8333-444455556666"


def test_the_object_of_a_recreated_node_is_written_when_its_kubelet_has_restarted(monkeypatch):
    """It went with the Node of before, and says of the new one just the same."""
    monkeypatch.setattr(node_writer, "SECONDS_UNTIL_FIRST_WRITE", 30.0)
    api = Api()

    def again(state):
        api.uid = "uid-2"
        state.set_registration("nvidia.com/gpu-0", "the kubelet started again")
        register(state)

    (_, before), (_, after) = writes(api, again, 2, begin=register)[:2]
    assert before == after
    assert api.owners[:2] == ["uid-1", "uid-2"]
