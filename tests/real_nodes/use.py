"""What commands of the product show of a cluster of real nodes."""

from typer.testing import CliRunner

from cli.app import app
from testbed.nodes.cluster import RealCluster

MEASURED_S = 200
"""The agent measures every 15 s; a machine may be busy with much else."""


def run(cluster: RealCluster, *arguments: str) -> str:
    """What a command of the product prints."""
    ended = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(cluster.kubeconfig)])
    assert ended.exit_code == 0, ended.output
    return ended.stdout
