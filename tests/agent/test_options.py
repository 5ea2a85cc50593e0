"""The agent's options: what is refused, and the JSON by which the agent itself gets them."""

from unittest import mock

import msgspec
from typer.testing import CliRunner

from agent.options import AgentOptions
from cli.app import app


def started(monkeypatch, *options):
    """Run the command up to where the agent takes its place; return how it ended, and the agent's command."""
    execve = mock.Mock()
    monkeypatch.setattr("os.execve", execve)
    ended = CliRunner().invoke(app, ["agent", *options])
    return ended, *(call.args[1] for call in execve.call_args_list)


def test_the_agent_gets_its_options_as_json(monkeypatch):
    arguments = "--cdi-dir=/a/ --cdi-dir=/b --ignore-xid=13 --state-dir=/s/ --divide=0 --driver-limits=false"
    _, [*_, module, options] = started(monkeypatch, *arguments.split())
    assert module == "agent"
    assert msgspec.json.decode(options, type=AgentOptions) == AgentOptions(
        cdi_dirs=("/a", "/b"), ignored_xids=(13,), state_dir="/s", divide=("0",), driver_limits="false"
    )


def test_a_way_of_offering_that_is_unknown_is_refused(monkeypatch):
    [ended] = started(monkeypatch, "--offer=slices")
    assert ended.exit_code == 2
    assert "'slices' is not one of 'device-plugin', 'dra'" in ended.stderr
