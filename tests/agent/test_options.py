"""The JSON by which the agent itself gets its options."""

from unittest import mock

import msgspec
from typer.testing import CliRunner

from agent.options import AgentOptions
from cli.app import app


def test_the_agent_gets_its_options_as_json(monkeypatch):
    execve = mock.Mock()
    monkeypatch.setattr("os.execve", execve)
    arguments = "--cdi-dir=/a/ --cdi-dir=/b --ignore-xid=13 --state-dir=/s/ --divide=0 --driver-limits=false"
    CliRunner().invoke(app, ["agent", *arguments.split()])
    *_, module, options = execve.call_args.args[1]
    assert module == "agent"
    assert msgspec.json.decode(options, type=AgentOptions) == AgentOptions(
        cdi_dirs=("/a", "/b"), ignored_xids=(13,), state_dir="/s", divide=("0",), driver_limits="false"
    )
