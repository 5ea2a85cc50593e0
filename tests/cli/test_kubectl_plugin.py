"""kubectl-fraction: the same subcommands under the name by which kubectl finds a plugin."""

from typer.testing import CliRunner

from cli.app import app as whole
from cli.kubectl_plugin import app


def test_the_plugin_has_what_a_user_of_a_cluster_asks():
    assert {command.callback for command in app.registered_commands} < {
        command.callback for command in whole.registered_commands
    }
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in ("ledger", "why", "explain", "doctor"))


def test_it_reads_with_the_kubeconfig_that_it_is_given():
    ended = CliRunner().invoke(app, ["ledger", "--kubeconfig", "missing"])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("fraction-injector: no GpuLedgers: cannot find the API server")
