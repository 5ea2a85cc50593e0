"""fraction-injector ledger: what it prints at once, watched, and as JSON."""

import json
import os
import re
from dataclasses import replace
from unittest.mock import patch

import pytest

from cli.ledger_filter import Filter
from cli.ledger_screen import CLEAR, _lines, show
from cli.options import LedgerOutput
from cluster.kube_client import ApiError
from controller.publish.gpu_ledger import status_manifest, status_of
from kube.dra import DRIVER
from kube.names import GPU_LEDGERS_PATH as LEDGERS
from ledger.view import LedgerView, PodView
from modes.claim import ClaimedShare
from modes.fraction import Fraction
from tests.cli.commands.why_api import NAMESPACE, Api, waiting
from tests.cli.ledger_views import CARDS, SOME, plain, shown
from tests.cli.running import error_line, run, serve
from tests.cluster.objects import claiming, pod


def asked(*arguments, views=(SOME,)):
    """The command over given ledgers, one at a look, ended by Ctrl-C after the last."""
    given = iter(views)

    def read():
        found = next(given, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    with patch("cli.ledger_screen.source", lambda *_: read), patch("cli.ledger_screen.POLL_SECONDS", 0):
        ended = run("ledger", *arguments)
    assert ended.returncode == 0, ended.output
    return ended.stdout


def printed(*arguments, **options):
    return [" ".join(line.split()) for line in asked(*arguments, **options).splitlines()]


def test_the_last_line_is_the_total():
    assert printed()[-1] == "total: 8 of 22 slices free, on 2 nodes"
    assert printed("--node", "cpu-*")[-1] == "total: 8 of 8 slices free, on 1 node"
    assert printed("--node", "none") == ["no GPUs to show"]


@pytest.mark.parametrize(("height", "by_node"), [(40, False), (7, True)])
def test_what_is_longer_than_the_screen_is_shown_by_node(height, by_node):
    drawn = _lines(SOME, os.terminal_size((100, height)), wide=False, watch=False)
    found = list(map(plain, drawn))
    whole = [
        "NODE PRODUCT FREE PODS",
        "gpu-0 not usable H100 0 of 14 slices free 3",
        "cpu-7 no memory label ? 8 of 8 slices free 0",
        "waits: team/d for 8 of GPU 0",
        "each GPU: --node NAME, or --output wide",
    ]
    assert found[:-1] == (whole if by_node else shown(SOME))
    assert found[-1].startswith("total: ")


def test_pods_that_are_shown_instead_of_gpus_are_never_summed_up_by_node():
    pods = [PodView("team", name, "pod", (0,), 4, (), "gpu-0", "4 slices", "Running") for name in "abc"]
    drawn = _lines(LedgerView((), (), tuple(pods)), os.terminal_size((60, 2)), wide=False, watch=False)
    assert [line.split()[0] for line in drawn] == ["POD", "a", "b", "c"]


def test_a_watched_ledger_never_leaves_the_screen_and_is_cut_to_its_width():
    many = LedgerView(tuple(replace(SOME.nodes[0], name=f"node-{each}") for each in range(50)), ())
    drawn = _lines(many, os.terminal_size((60, 20)), wide=False, watch=True)
    assert len(drawn) == 19
    narrow = _lines(SOME, os.terminal_size((60, 40)), wide=False, watch=True)
    assert max(len(re.sub(r"\x1b\[[0-9]+m", "", line)) for line in narrow) == 60


def test_json_is_the_whole_ledger_and_where_watched_it_is_printed_again_when_it_changes():
    found = json.loads(asked("-o", "json"))
    assert [each["kind"] for each in found] == ["node", "node", "pod"]
    gpus = found[0].pop("gpus")
    node = {"kind": "node", "name": "gpu-0", "usable": False, "unlisted": None}
    assert found[0] == {**node, "slicesPerGpu": 8, "gpuMiB": 81920, "product": "H100"}
    said = [(gpu["name"], gpu["used"], gpu["free"]) for gpu in gpus]
    assert said == [("0", 5, 0), ("1", 3, 0), ("pool", 0, 0)]
    changed = Filter(node="cpu-*").apply(SOME)
    assert printed("--watch", views=[SOME, SOME, changed]) == [*printed(), *printed(views=[changed])]
    news = asked("-o", "json", "--watch", views=[SOME, SOME, changed]).splitlines()
    assert [len(json.loads(line)) for line in news] == [3, 1]


def test_watched_on_a_screen_each_look_replaces_the_last(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("cli.ledger_screen.POLL_SECONDS", 0)
    views = iter([SOME, LedgerView((SOME.nodes[0],), ())])

    def read():
        if (found := next(views, None)) is None:
            raise KeyboardInterrupt
        return found

    show(read, Filter(), LedgerOutput.TEXT, watch=True)
    _, first, second = capsys.readouterr().out.split(CLEAR)
    assert ("cpu-7" in first, "cpu-7" in second) == (True, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--use", "--watch"], "--use, --uninjected and --suggest read once: leave out --watch"),
        (["--use", "--kubeconfig", "missing"], "no GpuLedgers and GpuNodes: there is no kubeconfig missing"),
        (["--kubeconfig", "missing"], "no GpuLedgers: there is no kubeconfig missing"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(options, message):
    ended = run("ledger", *options)
    assert error_line(ended).startswith(message)


@pytest.fixture
def as_tenant(monkeypatch):
    """The command as a user that may list only the pods of one namespace, and no GpuLedgers."""
    ended = pod("ended") | {"status": {"phase": "Failed"}}
    leaves = pod("leaves", deletionTimestamp="2026-11-21T10:00:00Z")
    claims = claiming(pod("claims"), ClaimedShare(DRIVER, Fraction(1, 4)))
    without = pod("without", slices=0)
    serve(monkeypatch, Api({f"{NAMESPACE}/pods": {"items": [waiting(), ended, leaves, claims, without]}}))
    return lambda *arguments: run("ledger", *arguments)


def test_a_user_of_one_namespace_sees_its_pods_with_their_shares(as_tenant):
    ended = as_tenant("--namespace", "team")
    assert (ended.returncode, ended.stderr) == (0, "")
    head, *rows = [re.split(" {2,}", line) for line in ended.stdout.splitlines()]
    assert head == ["POD", "NODE", "STATE", "SHARE"]
    assert rows == [
        ["train", "-", "Pending", "4 slices of GPU 3"],
        ["leaves", "gpu-0", "Terminating", "4 slices of GPU 0"],
        ["claims", "gpu-0", "Running", "claim of 1/4 of a card"],
    ]
    first, *_ = json.loads(as_tenant("--namespace", "team", "-o", "json").stdout)
    of_waiting = {"kind": "pod", "namespace": "team", "name": "train", "indices": [3], "slices": 4}
    said = {"onEach": [], "node": None, "state": "Pending", "share": "4 slices of GPU 3"}
    assert first == of_waiting | said


@pytest.mark.parametrize(
    "options", [[], ["-A"], ["-n", "team", "--free", "1"], ["-n", "team", "--node", "a"]]
)
def test_a_user_of_one_namespace_is_told_to_name_it(as_tenant, options):
    wrong = error_line(as_tenant(*options))
    assert wrong.startswith("no GpuLedgers: the API server answered 403: ")
    assert wrong.endswith("; only --namespace NAME shows pods without them")


def test_who_is_not_known_at_all_is_not_told_to_name_a_namespace(monkeypatch):
    serve(monkeypatch, Api({LEDGERS: ApiError(401, "Unauthorized")}))
    assert error_line(run("ledger")) == "no GpuLedgers: the API server answered 401: Unauthorized"


def test_cards_of_dra_drivers_are_items_of_their_own(monkeypatch):
    stored = [status_manifest(each.name, status_of(each, 1, "2026-11-21T10:00:00Z", ())) for each in CARDS]
    serve(monkeypatch, Api({LEDGERS: {"items": stored}}))
    ended = run("ledger", "-o", "json", "--node", "a")
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    listed = [(each["kind"], each["node"], each["device"]) for each in found]
    assert listed == [("card", "a", "gpu-0"), ("card", "a", "gpu-1")]
    sums = {"memoryMiB": 81920, "claimedMiB": 42391, "freeMiB": 39529, "claims": 2}
    named = {"driver": DRIVER, "uuid": "GPU-0", "model": "NVIDIA L4", "taint": ""}
    assert found[0].items() >= (sums | named).items()
    assert found[0].keys() == {"kind", "node", "device", "shares", *sums, *named}
    share = {"namespace": "team", "claim": "x-1", "pod": "train", "memoryMiB": 40960, "queue": ""}
    assert found[0]["shares"][0] == share
