"""kubectl-fraction: the same subcommands under the name by which kubectl finds a plugin."""

import subprocess
import sys

from cli.app import app as whole
from cli.kubectl_plugin import COMMANDS, NAME
from cli.subcommands import SUBCOMMANDS, make_app
from tests.cli.running import CHECKOUT, run

START = "import sys; sys.argv[0] = 'kubectl-fraction'; from cli.kubectl_plugin import main; main()"


def test_the_plugin_has_every_command_but_the_processes():
    assert set(SUBCOMMANDS) - set(COMMANDS) == {"webhook", "controller", "agent"}
    app = make_app(COMMANDS, name=NAME)
    assert {command.callback for command in app.registered_commands} < {
        command.callback for command in whole.registered_commands
    }


def test_its_help_lists_them():
    command = [sys.executable, "-c", START, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=True).stdout
    assert "Cluster:" in shown
    assert "  webhook " not in shown


def test_a_process_is_no_command_of_it():
    ended = run("webhook", app=make_app(COMMANDS, name=NAME))
    assert ended.returncode == 2
    assert "No such command 'webhook'" in ended.stderr
