"""kubectl-fraction: all commands but the processes, as a kubectl plugin."""

from __future__ import annotations

from cli.subcommands import PROCESSES, SUBCOMMANDS, run

NAME = "kubectl fraction"
COMMANDS = tuple(name for name in SUBCOMMANDS if name not in PROCESSES)


def main() -> None:
    """Run the plugin, with the kubeconfig that kubectl itself would use."""
    run(COMMANDS, NAME)
