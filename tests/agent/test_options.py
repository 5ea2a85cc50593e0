"""The agent's options: what is refused, and the JSON by which the agent itself gets them."""

import msgspec
import pytest
from typer.testing import CliRunner

from agent.options import AgentOptions
from cli.app import app


@pytest.fixture
def started(monkeypatch):
    """Run the command up to where the agent takes its place, and return what it is given."""

    def run(*options):
        commands = []
        monkeypatch.setattr("os.execve", lambda _, command, __: commands.append(command))
        ended = CliRunner().invoke(app, ["agent", *options])
        return ended, *commands

    return run


def test_the_agent_gets_its_options_as_json(started):
    arguments = "--cdi-dir=/a/ --cdi-dir=/b --ignore-xid=13 --state-dir=/s/ --divide=0 --driver-limits=false"
    _, command = started(*arguments.split())
    *_, module, options = command
    assert module == "agent"
    assert msgspec.json.decode(options, type=AgentOptions) == AgentOptions(
        cdi_dirs=("/a", "/b"), ignored_xids=(13,), state_dir="/s", divide=("0",), driver_limits="false"
    )


def test_a_way_of_offering_that_is_unknown_is_refused(started):
    [ended] = started("--offer=slices")
    assert ended.exit_code == 2
    assert "'slices' is not one of 'device-plugin', 'dra'" in ended.stderr
