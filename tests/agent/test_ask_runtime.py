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

    def __init__(self, name="containerd", **info):
        self.name, self.info = name, info

    def Version(self, request, context):  # noqa: N802 - the interface's name
        return VersionResponse(runtime_name=self.name, runtime_version="v2.2.1")

    def Status(self, request, context):  # noqa: N802 - the interface's name
        return StatusResponse(info=self.info if request.verbose else {})


@pytest.fixture
def served(tmp_path):
    """Serve a runtime on a socket."""
    servers = []

    def serve(runtime):
        server = grpc.server(ThreadPoolExecutor(1))
        serve_interface(runtime, runtime_pb2, "RuntimeService", server)
        path = tmp_path / f"{len(servers)}.sock"
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
        return path

    yield serve
    for server in servers:
        server.stop(None).wait()


def asked(monkeypatch, socket, file):
    monkeypatch.setattr(sys, "argv", ["ask_runtime", str(socket), str(file)])
    return ask_runtime.main()


def test_the_agent_reads_what_was_written(served, tmp_path, monkeypatch):
    file = tmp_path / "runtime"
    assert asked(monkeypatch, served(Containerd(config=ON)), file) == 0
    options = AgentOptions(runtime_file=str(file))
    assert stated_runtime(options) == Runtime("containerd://v2.2.1", cdi=True)


SAYS_NOTHING = [
    {},
    {"config": '{"enableCDI": "yes"}'},
    {"config": "no JSON"},
    {"config": json.dumps({"runtime": {"enableCDI": True}})},
]


@pytest.mark.parametrize("info", SAYS_NOTHING, ids=str)
def test_a_configuration_that_does_not_name_cdi_says_nothing_of_it(served, info):
    assert ask_runtime.ask(str(served(Containerd(**info)))) == Runtime("containerd://v2.2.1", cdi=None)


def test_another_runtime_that_does_not_know_the_question_is_known_by_its_version(served):
    class Old:
        def Version(self, request, context):  # noqa: N802 - the interface's name
            return VersionResponse(runtime_name="cri-o", runtime_version="1.30.4")

    assert ask_runtime.ask(str(served(Old()))) == Runtime("cri-o://1.30.4", cdi=None)


def test_without_an_answer_nothing_is_written(tmp_path, monkeypatch, capsys):
    file = tmp_path / "runtime"
    assert asked(monkeypatch, tmp_path / "none.sock", file) == 1
    assert "the container runtime does not answer on" in capsys.readouterr().err
    assert not file.exists()
    assert stated_runtime(AgentOptions(runtime_file=str(file))) is None
