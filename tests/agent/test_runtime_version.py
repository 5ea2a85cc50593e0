"""The runtime's version, asked once by a process that ends."""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from agent import runtime_version
from agent.kubelet_api.runtime_pb2 import VersionResponse
from agent.kubelet_api.runtime_pb2_grpc import RuntimeServiceServicer, add_RuntimeServiceServicer_to_server
from agent.runtime import stated_version
from agent.settings import AgentOptions


class Runtime(RuntimeServiceServicer):
    def Version(self, request, context):  # noqa: N802 - the interface's name
        return VersionResponse(runtime_name="containerd", runtime_version="v2.2.1")


@pytest.fixture
def socket(tmp_path):
    server = grpc.server(ThreadPoolExecutor(1))
    add_RuntimeServiceServicer_to_server(Runtime(), server)
    path = tmp_path / "runtime.sock"
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield path
    server.stop(None).wait()


def asked(monkeypatch, socket, file):
    monkeypatch.setattr(runtime_version, "TRIES", 1)
    monkeypatch.setattr(sys, "argv", ["runtime_version", str(socket), str(file)])
    return runtime_version.main()


def test_the_agent_reads_what_was_written(socket, tmp_path, monkeypatch):
    file = tmp_path / "version"
    assert asked(monkeypatch, socket, file) == 0
    options = AgentOptions("", "", runtime_version_file=str(file))
    assert stated_version(options) == "containerd://v2.2.1"


def test_where_nobody_answers_nothing_is_written(tmp_path, monkeypatch, capsys):
    file = tmp_path / "version"
    assert asked(monkeypatch, tmp_path / "none.sock", file) == 1
    assert "the container runtime does not answer on" in capsys.readouterr().err
    assert not file.exists()
    assert stated_version(AgentOptions("", "", runtime_version_file=str(file))) is None


def test_an_option_goes_before_a_file_which_is_not_read_without_end(tmp_path):
    file = tmp_path / "version"
    file.write_bytes(b"containerd://2.0.0\xff" + b"x" * 10_000)
    options = AgentOptions("", "", runtime_version="containerd://1.7.27", runtime_version_file=str(file))
    assert stated_version(options) == "containerd://1.7.27"
    assert len(stated_version(AgentOptions("", "", runtime_version_file=str(file)))) == 200
