"""The ledger as people see it in a terminal."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.app import app
from cli.ledger_table import table
from ledger.view import GpuView, LedgerView, NodeView, Share, Waiting


def shown(view):
    console = Console(file=io.StringIO(), width=120)
    console.print(table(view))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_each_gpu_is_a_line_of_blocks_with_its_holders():
    gpus = (
        GpuView(0, 8, (Share("team", "a", "holder", 4), Share("team", "b", "reservation", 1))),
        GpuView(1, 2, (Share("team", "c", "holder", 3),), cordoned=True),
        GpuView(None, 4, ()),
    )
    node = NodeView("gpu-0", usable=False, slices_per_gpu=8, gpu_mib=81920, product="H100", gpus=gpus)
    assert shown(LedgerView((node,), (Waiting("team", "d", "pod", (0,), 8),))) == [
        "NODE GPU SLICES FREE HELD BY",
        "gpu-0 H100 81920 MiB, not usable 0 █████░░░ 3 of 8 team/a: 4, team/b: 1",
        "1 cordoned ██▓ -1 of 2 team/c: 3",
        "pool ░░░░ 4 of 4",
        "waits: team/d for 8 of GPU 0",
    ]


def test_a_cluster_without_gpus_says_so():
    assert shown(LedgerView((), ())) == ["no node has GPUs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tls-dir", "."], "--tls-dir goes with --controller"),
        (["--controller", "https://localhost:1"], "--controller needs --tls-dir DIR, and no --kubeconfig"),
        (["--controller", "https://localhost:1", "--tls-dir", "missing"], "missing holds no usable tls.crt"),
        (["--kubeconfig", "missing"], "no GpuLedgers: no way to the API server"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(options, message):
    ended = CliRunner().invoke(app, ["ledger", *options])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"fraction-injector: {message}")
    assert ended.stderr.count("\n") == 1
