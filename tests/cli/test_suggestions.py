"""`suggest`: the smallest share that would have held the peak of each owner's pods."""

import json
from datetime import UTC, datetime

import pytest

from cli.suggestion_table import ADVICE
from describe.suggestions import Suggestions, suggest
from ledger.use import GpuSize, ShareUse, UsedShare
from tests.cli.running import run

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


EIGHTHS, CARD = GpuSize(8), GpuSize(40960, in_mib=True)


def share(  # noqa: PLR0913 each is what a share has
    pod, peak=None, slices=4, *, p95=None, busy=3, queue="", namespace="team", size=EIGHTHS
):
    """A share of a card of 40,960 MiB, measured for two hours, or not at all."""
    use = (
        ShareUse(5120 * slices, 0, peak, p95 or peak, busy, "2026-01-01T10:00:00Z")
        if peak is not None
        else None
    )
    held = 5120 * slices if size.in_mib else slices
    return UsedShare("gpu-0", "0", namespace, pod, queue, held, size, use)


@pytest.mark.parametrize(
    ("peak", "enough"), [(0, 1), (5120, 1), (5121, 2), (20480, 4), (30000, 6), (99999, 8)]
)
def test_the_smallest_share_that_holds_the_peak_is_enough(peak, enough):
    [found] = suggest([share("a", peak)], {}, NOW)
    assert found.enough == enough


def test_pods_of_an_owner_and_queue_are_compared_together():
    shares = [
        share("a", 100, busy=3, queue="q"),
        share("b", 6000, 6, p95=50, busy=None, queue="q"),
        share("c", queue="q"),
        share("d", 100),
    ]
    owners = dict.fromkeys([("team", "a"), ("team", "b"), ("team", "c")], "Job train")
    first, second = suggest(shares, owners, NOW)
    assert (first.queue, first.owner, first.pods, first.unmeasured) == ("q", "Job train", 2, 1)
    assert (first.held, first.peak_mib, first.p95_mib, first.busy_percent) == (6, 6000, 100, 3)
    assert (first.enough, first.hours) == (2, 4.0)
    assert (second.owner, second.enough) == ("", 1)


def suggested(monkeypatch, found, *arguments):
    monkeypatch.setattr("cli.suggestion_table.ask", lambda *_: Suggestions(found))
    ended = run("ledger", "--suggest", *arguments)
    assert ended.returncode == 0, ended.output
    assert (ADVICE in ended.stderr) is (bool(found) and not arguments)
    return ended.stdout


def test_the_command_prints_a_line_for_each_owner(monkeypatch):
    found = suggest(
        [share("a", 6000, queue="q"), share("b", namespace="z")], {("team", "a"): "Job train"}, NOW
    )
    lines = suggested(monkeypatch, found).splitlines()
    assert " ".join(lines[1].split()) == "team q Job train 1 4 of 8 6000 6000 3 % 2 of 8 2.0 h"
    assert " ".join(lines[2].split()) == "z - - 0 of 1 4 of 8 - - - - not at all"
    [_, line] = suggested(monkeypatch, suggest([share("c", 6000, size=CARD)], {}, NOW)).splitlines()
    assert " 20480 of 40960 MiB " in line
    assert " 6000 of 40960 MiB (0.147) " in line
    assert suggested(monkeypatch, []) == "no pod holds a share of a GPU, or did in the last 30 days\n"


def test_json_is_a_list_of_owners(monkeypatch):
    [found] = json.loads(suggested(monkeypatch, suggest([share("a", 6000)], {}, NOW), "-o", "json"))
    assert found == {
        "namespace": "team",
        "queue": "",
        "owner": "",
        "pods": 1,
        "unmeasuredPods": 0,
        "slices": 4,
        "slicesPerGpu": 8,
        "claimedMiB": None,
        "cardMiB": None,
        "peakMiB": 6000,
        "p95MiB": 6000,
        "busyPercent": 3,
        "enoughSlices": 2,
        "enoughMiB": None,
        "measuredHours": 2.0,
        "lastSeen": None,
    }
    claims = suggest([share("a", 6000, size=CARD)], {}, NOW)
    [found] = json.loads(suggested(monkeypatch, claims, "-o", "json"))
    assert (found["claimedMiB"], found["cardMiB"], found["enoughMiB"]) == (20480, 40960, 6000)
    assert (found["slices"], found["slicesPerGpu"], found["enoughSlices"]) == (None, None, None)
