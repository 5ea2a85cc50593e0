"""fraction-injector ledger: what it prints at once, watched, and as JSON."""

import io
import json
import re
from dataclasses import replace
from unittest.mock import patch

import pytest
from rich.console import ConsoleDimensions

from cli.ledger_filter import Filter
from cli.ledger_screen import Shown, _print
from cli.ledger_table import lines
from cli.options import LedgerOutput
from cli.terminal import Terminal
from cluster.kube_client import ApiError
from controller.publish.gpu_ledger import status_manifest, status_of
from kube.dra import DRIVER
from kube.names import GPU_LEDGERS_PATH as LEDGERS
from kube.names import RESOURCE_CLAIMS_PATH, RESOURCE_SLICES_PATH
from ledger.view import LedgerView
from tests.cli.commands.test_why_claims import HELD, OFFERED
from tests.cli.commands.why_api import Api
from tests.cli.ledger_views import SOME, node, shown
from tests.cli.running import run, serve
from tests.cli.test_card_table import CARDS


def asked(*arguments, views=(SOME,), cards=()):
    """The command over given ledgers, one at a look, ended by Ctrl-C after the last."""
    given = iter(views)

    def read():
        found = next(given, None)
        if found is None:
            raise KeyboardInterrupt
        return Shown(found, cards)

    with (
        patch("cli.ledger_screen.source", lambda *_: read),
        patch("cli.ledger_screen.POLL_SECONDS", 0),
    ):
        ended = run("ledger", *arguments)
    assert ended.returncode == 0, ended.output
    return ended.stdout


def printed(*arguments):
    return [" ".join(line.split()) for line in asked(*arguments).splitlines()]


def test_the_last_line_is_the_total():
    assert printed()[-1] == "total: 8 of 22 slices free, on 3 GPUs of 2 nodes"
    assert printed("--node", "cpu-*")[-1] == "total: 8 of 8 slices free, on 1 GPUs of 1 node"
    assert printed("--node", "none") == ["no GPUs to show"]


@pytest.mark.parametrize(("height", "by_node"), [(40, False), (7, True)])
def test_what_is_longer_than_the_screen_is_shown_by_node(height, by_node):
    console = Terminal(soft_wrap=True)
    console.file = io.StringIO()
    console._force_terminal, console.size = True, ConsoleDimensions(100, height)
    _print(console, Shown(SOME), LedgerOutput.TEXT)
    found = [
        " ".join(line.split()) for line in re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()).splitlines()
    ]
    whole = [
        "NODE PRODUCT GPUS FREE PODS",
        "gpu-0 not usable H100 2 0 of 14 slices free 3",
        "cpu-7 no memory label ? 1 8 of 8 slices free 0",
        "waits: team/d for 8 of GPU 0",
        "each GPU: --node NAME, --output wide, or --watch",
    ]
    assert found[:-1] == (whole if by_node else shown(SOME))
    assert found[-1].startswith("total: ")


def test_json_is_the_whole_ledger_and_one_line_a_change_when_watched():
    found = json.loads(asked("-o", "json"))
    assert [each["kind"] for each in found] == ["node", "node", "pod"]
    assert found[0] | {"gpus": 0} == {
        "kind": "node",
        "name": "gpu-0",
        "usable": False,
        "slicesPerGpu": 8,
        "gpuMiB": 81920,
        "product": "H100",
        "gpus": 0,
        "unlisted": None,
    }
    assert [(gpu["name"], gpu["used"], gpu["free"]) for gpu in found[0]["gpus"]] == [
        ("0", 5, 0),
        ("1", 3, 0),
        ("pool", 0, 0),
    ]
    changed = Filter(node="cpu-*").apply(SOME)
    news = asked("-o", "json", "--watch", views=[SOME, SOME, changed]).splitlines()
    assert [len(json.loads(line)) for line in news] == [3, 1]


def test_cards_of_dra_drivers_follow_the_slices_and_stand_for_themselves():
    both = [" ".join(line.split()) for line in asked(cards=CARDS).splitlines()]
    assert both[: len(lines(SOME))] == shown(SOME)
    assert both[len(lines(SOME))] == "NODE CARD CLAIMED CLAIMS HELD BY"
    assert [line.split()[1:3] for line in both[-2:]] == [["8", "of"], ["39529", "of"]]
    alone = asked(cards=CARDS, views=[LedgerView((), ())]).splitlines()
    assert (alone[0].split()[:2], len(alone)) == (["NODE", "CARD"], 5)
    found = json.loads(asked("-o", "json", "--node", "a", cards=CARDS))
    assert [(each["kind"], each["node"], each["device"]) for each in found] == [
        ("card", "a", "gpu-0"),
        ("card", "a", "gpu-1"),
    ]
    sums = {"memoryMiB": 81920, "claimedMiB": 42391, "freeMiB": 39529, "claims": 2}
    named = {"driver": DRIVER, "uuid": "GPU-0", "model": "NVIDIA L4", "taint": ""}
    assert found[0].items() >= (sums | named).items()
    assert found[0].keys() == {"kind", "node", "device", "shares", *sums, *named}
    share = {"namespace": "team", "claim": "x-1", "pod": "train", "memoryMiB": 40960, "queue": ""}
    assert found[0]["shares"][0] == share


def test_watched_into_a_pipe_it_prints_lines():
    changed = LedgerView((SOME.nodes[0],), ())
    news = asked("--watch", views=[SOME, SOME, changed]).splitlines()
    whole = len(lines(SOME))
    assert news[:whole] == shown(SOME, wide=True)
    assert [line.split()[1:3] for line in news[whole:]] == [["-", "cpu-7"], ["-", "waits:"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--use", "--watch"], "--use, --uninjected and --suggest read once: leave out --watch"),
        (["--use", "--kubeconfig", "missing"], "no GpuLedgers and GpuNodes: cannot find the API server"),
        (["--kubeconfig", "missing"], "no GpuLedgers: cannot find the API server"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(options, message):
    ended = run("ledger", *options)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"fraction-injector: {message}")
    assert ended.stderr.count("\n") == 1


@pytest.fixture
def of_cluster(monkeypatch):
    """The command against an API server that lets its user read what the test says."""

    def ask(answers, *arguments):
        serve(monkeypatch, Api({LEDGERS: {"items": []}, **answers}))
        ended = run("ledger", *arguments)
        return ended.returncode, ended.stdout, ended.stderr

    return ask


def test_cards_and_their_claims_are_read_from_the_api_server(of_cluster):
    code, out, err = of_cluster({RESOURCE_SLICES_PATH: OFFERED, RESOURCE_CLAIMS_PATH: HELD})
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "NODE CARD CLAIMED CLAIMS HELD BY",
        "a gpu-0 30720 of 40960 MiB 1 team/pod-1: 30720",
        "a gpu-1 51200 of 81920 MiB 1 team/pod-1: 51200",
        "b gpu-0 81920 of 81920 MiB 1 team/pod-1: 81920",
        f"b gpu-1 taint {DRIVER}/xid=79 0 of 81920 MiB 0",
        "total: 40960 of 286720 MiB of GPU memory free to claims, on 4 cards of 2 nodes",
    ]


@pytest.mark.parametrize("status", [403, 404])
def test_who_may_not_list_cards_reads_the_slices_alone(of_cluster, status):
    assert of_cluster({RESOURCE_SLICES_PATH: ApiError(status, "no")}) == (0, "no GPUs to show\n", "")


def test_cards_whose_claims_cannot_be_read_are_left_out_and_that_is_said(of_cluster):
    for unread in (
        {RESOURCE_SLICES_PATH: OFFERED, RESOURCE_CLAIMS_PATH: ApiError(403, "no")},
        {RESOURCE_SLICES_PATH: ApiError(500, "no")},
    ):
        code, out, err = of_cluster(unread)
        assert (code, out) == (0, "no GPUs to show\n")
        assert err.startswith("Not read: cards that DRA drivers offer, and their claims: ")


CARD_VIEW = replace(
    node("a"), slices_per_gpu=0, gpus=(), cards=tuple(card for card in CARDS if card.node == "a")
)


def test_cards_of_gpu_ledgers_need_no_further_right(of_cluster):
    stored = status_manifest("a", status_of(CARD_VIEW, 1, "2026-11-21T10:00:00Z", ()))
    code, out, err = of_cluster({LEDGERS: {"items": [stored]}}, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(asked("-o", "json", "--node", "a", cards=CARDS))
