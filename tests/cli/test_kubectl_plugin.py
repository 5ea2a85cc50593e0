"""kubectl-fraction: the same subcommands under the name by which kubectl finds a plugin."""

import subprocess
import sys

from tests.cli.running import CHECKOUT

START = "import sys; sys.argv[0] = 'kubectl-fraction'; from cli.kubectl_plugin import main; main()"


def test_its_help_lists_them():
    command = [sys.executable, "-c", START, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=True).stdout
    assert "Cluster:" in shown
    assert "  webhook " not in shown
