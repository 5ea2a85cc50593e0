"""fraction-injector ledger: what it prints at once, watched, and as JSON."""

import json
from unittest.mock import patch

import msgspec
import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.ledger_filter import Filter
from cli.ledger_table import lines
from ledger.view import LedgerView
from tests.cli.ledger_views import SOME, shown


def run(*arguments, views=(SOME,)):
    """The command over given ledgers, one at a look, ended by Ctrl-C after the last."""
    given = iter(views)

    def read():
        found = next(given, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    with (
        patch("cli.commands.ledger._source", lambda *_: read),
        patch("cli.commands.ledger.POLL_SECONDS", 0),
    ):
        ended = CliRunner().invoke(app, ["ledger", *arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_the_command_prints_whole_lines_where_there_is_no_screen():
    assert [" ".join(line.split()) for line in run("--output", "wide").splitlines()] == shown(SOME, wide=True)
    assert [" ".join(line.split()) for line in run("--free", "4").splitlines()] == shown(
        Filter(free=4).apply(SOME)
    )


def test_json_is_the_whole_ledger_and_one_line_a_change_when_watched():
    assert msgspec.json.decode(run("-o", "json").encode(), type=LedgerView) == SOME
    changed = Filter(node="cpu-*").apply(SOME)
    printed = run("-o", "json", "--watch", views=[SOME, SOME, changed]).splitlines()
    assert [len(json.loads(line)["nodes"]) for line in printed] == [2, 1]


def test_watched_into_a_pipe_it_prints_lines():
    changed = LedgerView((SOME.nodes[0],), ())
    printed = run("--watch", views=[SOME, SOME, changed]).splitlines()
    whole = len(lines(SOME))
    assert printed[:whole] == shown(SOME, wide=True)
    assert [line.split()[1:3] for line in printed[whole:]] == [["-", "cpu-7"], ["-", "waits:"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--use", "--watch"], "--use reads GpuLedgers and GpuNodes once: leave out --watch"),
        (["--use", "--controller", "https://localhost:1"], "--use reads GpuLedgers and GpuNodes once"),
        (["--use", "--kubeconfig", "missing"], "no GpuLedgers and GpuNodes: cannot find the API server"),
        (["--tls-dir", "."], "--tls-dir goes with --controller"),
        (["--controller", "https://localhost:1"], "--controller needs --tls-dir DIR, and no --kubeconfig"),
        (["--controller", "https://localhost:1", "--tls-dir", "missing"], "missing holds no usable tls.crt"),
        (["--kubeconfig", "missing"], "no GpuLedgers: cannot find the API server"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(options, message):
    ended = CliRunner().invoke(app, ["ledger", *options])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"fraction-injector: {message}")
    assert ended.stderr.count("\n") == 1
