"""kubectl-fraction: the same subcommands, as a kubectl plugin."""

from __future__ import annotations

from cli.subcommands import run


def main() -> None:
    """Run the plugin, with the kubeconfig that kubectl itself would use."""
    run("kubectl fraction")
