"""`ledger --use`: a line for each share, and what is not measured."""

from datetime import UTC, datetime

from cli.share_use_table import use_as_json, use_lines
from describe.share_uses import held_shares
from ledger.use import PodUses, ShareUse
from tests.cli.ledger_views import SOME, TASK

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
USE = ShareUse(40960, 2100, 8000, 7800, 3, "2026-01-01T00:00:00Z")
USES = {"gpu-0": PodUses({("team", "a", 0): USE, ("team", "a", None): USE})}


def test_each_bound_share_has_a_line_and_promises_have_none():
    lines = [" ".join(line.split()) for line in use_lines(held_shares(SOME, USES), NOW).splitlines()]
    assert lines == [
        "NODE GPU POD SHARE MIB USED PEAK P95 GPU TIME",
        "gpu-0 0 team/a 4 of 8 2100 of 40960 8000 7800 3 % in the last hour",
        f"gpu-0 1 other/{TASK} 3 of 8 - - - -",
        "not measured: 1 of 2 shares, on 1 node; with agent.podMetrics agents measure every 15 s",
    ]


def test_json_has_null_for_what_is_not_measured():
    [first, second] = [use_as_json(each) for each in held_shares(SOME, USES)]
    assert first == {
        "node": "gpu-0",
        "gpu": "0",
        "namespace": "team",
        "pod": "a",
        "queue": "q-1",
        "slices": 4,
        "slicesPerGpu": 8,
        "claimedMiB": None,
        "cardMiB": None,
        "memoryMiB": 40960,
        "usedMiB": 2100,
        "peakMiB": 8000,
        "p95MiB": 7800,
        "busyPercent": 3,
        "since": "2026-01-01T00:00:00Z",
    }
    assert second.keys() == first.keys()
    unmeasured = [key for key, value in second.items() if value is None and first[key] is not None]
    assert unmeasured == list(first)[-6:]


def test_without_shares_it_says_so():
    assert use_lines([], NOW) == "no pod holds a share of a GPU"
