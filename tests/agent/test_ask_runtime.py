"""The container runtime is asked once what it is and whether CDI is on, by a process that ends."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from agent import ask_runtime
from agent.kubelet_api import runtime_pb2
from agent.kubelet_api.runtime_pb2 import StatusResponse, VersionResponse
from agent.kubelet_api.services import serve as serve_interface
from agent.options import AgentOptions
from agent.runtime import Runtime, stated_runtime

ON = json.dumps({"containerd": {"runtimes": {}}, "enableCDI": True, "cdiSpecDirs": ["/etc/cdi"]})


class Containerd:
    """Says what a test has it say."""

    def __init__(self, **info):
        self.info = info

    def Version(self, request, context):  # noqa: N802 - the interface's name
        return VersionResponse(runtime_name="containerd", runtime_version="v2.2.1")

    def Status(self, request, context):  # noqa: N802 - the interface's name
        return StatusResponse(info=self.info if request.verbose else {})


@pytest.fixture
def serve(tmp_path):
    server = grpc.server(ThreadPoolExecutor(1))

    def serve(runtime):
        serve_interface(runtime, runtime_pb2, "RuntimeService", server)
        server.add_insecure_port(f"unix:{tmp_path / 'runtime.sock'}")
        server.start()
        return tmp_path / "runtime.sock"

    yield serve
    server.stop(None).wait()


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Ask on a socket; return the exit code and what the agent reads."""
    file = tmp_path / "runtime"

    def ask(socket):
        monkeypatch.setattr(sys, "argv", ["ask_runtime", str(socket), str(file)])
        return ask_runtime.main(), stated_runtime(AgentOptions(runtime_file=str(file)))

    return ask


@pytest.mark.parametrize(
    ("info", "cdi"),
    [
        ({"config": ON}, True),
        ({}, None),
        ({"config": '{"enableCDI": "yes"}'}, None),
        ({"config": "no JSON"}, None),
        ({"config": '{"runtime": {"enableCDI": true}}'}, None),
    ],
    ids=str,
)
def test_the_agent_reads_what_the_runtime_says_of_cdi(asked, serve, info, cdi):
    assert asked(serve(Containerd(**info))) == (0, Runtime("containerd://v2.2.1", cdi=cdi))


def test_without_an_answer_nothing_is_written(asked, tmp_path, capsys):
    assert asked(tmp_path / "none.sock") == (1, None)
    assert "the container runtime does not answer on" in capsys.readouterr().err
