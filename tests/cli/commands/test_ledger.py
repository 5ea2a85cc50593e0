"""The ledger as people see it in a terminal."""

import json
from datetime import UTC, datetime
from unittest.mock import patch

import msgspec
import pytest
from rich.text import Text
from typer.testing import CliRunner

from cli.app import app
from cli.ledger_filter import Filter
from cli.ledger_table import MAX_BLOCKS, lines
from cli.ledger_watch import MIN_LINES, SECONDS_OF_A_PAGE, news, page
from ledger.view import GpuView, Holding, LedgerView, NodeView, PendingView, Unlisted

TASK = "clearml-id-4f1c9a7be2d04b6fa3c58d0e1b72964d"


def node(name="gpu-0", *gpus, **changes):
    fields = {"usable": True, "slices_per_gpu": 8, "gpu_mib": 81920, "product": "H100", "gpus": gpus}
    return NodeView(name, **{**fields, **changes})


def shown(view, **options):
    return [" ".join(line.plain.split()) for line in lines(view, **options)]


SOME = LedgerView(
    (
        node(
            "gpu-0",
            GpuView(0, 8, (Holding("team", "a", "holder", 4, "q-1"), Holding("team", "b", "reservation", 1))),
            GpuView(1, 2, (Holding("other", TASK, "holder", 3),), cordoned=True),
            GpuView(None, 4, ()),
            usable=False,
        ),
        node("cpu-7", GpuView(0, 8, ()), gpu_mib=None, product=None),
    ),
    (PendingView("team", "d", "pod", (0,), 8),),
)


def test_each_gpu_is_a_line_of_blocks_with_its_holders():
    assert shown(SOME) == [
        "NODE GPU SLICES FREE HELD BY",
        "gpu-0 not usable 0 █████░░░ 3 of 8 team/a: 4, team/b: 1",
        "gpu-0 not usable 1 cordoned ██▓ -1 of 2 other/clearml-i…6fa3c58d0e1b72964d: 3",
        "gpu-0 not usable pool ░░░░ 4 of 4",
        "cpu-7 no memory label 0 ░░░░░░░░ 8 of 8",
        "waits: team/d for 8 of GPU 0",
    ]


def test_wide_lines_hold_whole_names_products_and_memory():
    assert shown(SOME, wide=True)[:3] == [
        "NODE PRODUCT MIB STATE GPU SLICES FREE HELD BY",
        "gpu-0 H100 81920 not usable 0 █████░░░ 3 of 8 team/a: 4, team/b: 1",
        f"gpu-0 H100 81920 not usable 1 cordoned ██▓ -1 of 2 other/{TASK}: 3",
    ]
    assert shown(SOME, wide=True)[4] == "cpu-7 ? no label usable 0 ░░░░░░░░ 8 of 8"


def test_a_card_that_is_not_as_the_label_says_shows_its_own_mib():
    cards = (GpuView(0, 8, (), memory_mib=40960), GpuView(1, 8, (), memory_mib=81920), GpuView(2, 8, ()))
    view = LedgerView((node("mixed", *cards, gpu_mib=40960), node("bare", cards[1], gpu_mib=None)), ())
    assert [line.split(" ░")[0] for line in shown(view)[1:]] == [
        "mixed 0",
        "mixed 1 of 81920 MiB",
        "mixed 2",
        "bare 1 of 81920 MiB",
    ]
    assert [line.split()[2] for line in shown(view, wide=True)[1:]] == ["40960", "81920", "40960", "81920"]


def test_names_of_one_kind_keep_what_differs():
    tasks = [f"clearml-id-4f1c9a7be2d04b6fa3c58d0e1b7296{number:02}" for number in range(50)]
    gpus = [GpuView(number, 8, (Holding("team", task, "holder", 1),)) for number, task in enumerate(tasks)]
    drawn = shown(LedgerView((node("gpu-0", *gpus),), ()))
    assert len({line.split()[-2] for line in drawn[1:]}) == 50


def test_pods_that_are_not_listed_are_summed_up_and_no_filter_hides_them():
    held = GpuView(0, 8, (Holding("team", "a", "holder", 2),), unlisted=Unlisted(40, 50, 48))
    view = LedgerView((node("gpu-0", held),), ())
    line = shown(view, wide=True)[1]
    assert line.endswith(" -44 of 8 team/a: 2, and 40 more: 50")
    assert Filter(namespace="other").apply(view) == view


def test_a_cluster_without_gpus_says_so():
    assert shown(LedgerView((), ())) == ["no GPUs to show"]


@pytest.mark.parametrize("capacity", [33, 64, 10**18])
def test_any_number_of_slices_is_drawn_in_a_screens_width(capacity):
    gpu = GpuView(
        None, capacity, (Holding("team", "a", "holder", 1), Holding("team", "b", "holder", capacity * 2))
    )
    for drawn in (gpu, GpuView(None, capacity, ())):
        line = shown(LedgerView((node("gpu-0", drawn),), ()))[1]
        assert MAX_BLOCKS // 2 <= sum(line.count(block) for block in "█░▓") <= MAX_BLOCKS + 3


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Filter(), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None), ("cpu-7", 0)]),
        (Filter(node="gpu-*"), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None)]),
        (Filter(namespace="team"), [("gpu-0", 0)]),
        (Filter(queue="Q_1"), [("gpu-0", 0)]),
        (Filter(queue="other"), []),
        (Filter(free=4), [("gpu-0", None), ("cpu-7", 0)]),
        (Filter(free=1, node="gpu-?"), [("gpu-0", 0), ("gpu-0", None)]),
    ],
)
def test_filters_leave_whole_gpus(asked, expected):
    found = asked.apply(SOME)
    assert [(each.name, gpu.index) for each in found.nodes for gpu in each.gpus] == expected
    assert bool(found.backlog) is (asked in {Filter(), Filter(namespace="team")})


def texts(group):
    return [line.plain for line in group.renderables]


def test_a_page_fits_the_screen_and_all_pages_show_all():
    drawn = [Text(f"line {number} {'x' * 100}") for number in range(100)]
    seen = []
    for seconds in range(0, 60, SECONDS_OF_A_PAGE):
        found = texts(page(drawn, seconds, 40, 24))
        assert len(found) <= 23
        assert all(len(line) <= 40 for line in found)
        assert found[0].startswith("line 0 ")
        seen += found[1:-1]
    assert {line.split()[1] for line in seen} == {str(number) for number in range(1, 100)}
    assert found[-1].startswith("page 2 of 5")
    assert texts(page(drawn[:5], 0, 400, 24)) == [line.plain for line in drawn[:5]]
    assert len(texts(page(drawn, 0, 1, 1))) == MIN_LINES


def test_into_a_pipe_goes_what_changes():
    moment = datetime(2026, 11, 21, 10, 0, 7, tzinfo=UTC)
    assert news(["a", "b"], ["a", "c"], moment) == ["10:00:07 - b", "10:00:07 + c"]
    assert news(["a"], ["a"], moment) == []


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
