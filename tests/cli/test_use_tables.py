"""`ledger --use` and `--suggest`: what pods use of their shares, GPU hours, and which shares would do."""

import json
from datetime import UTC, datetime

import pytest

from cli.use_tables import ADVICE, use_as_json, use_lines
from cluster.kube_client import ApiError
from kube.names import GPU_LEDGERS_PATH, GPU_NODES_PATH, USE_HISTORY_KEY
from ledger.use import GpuSize, PodUses, ShareUse, UsedShare, shares_in_use
from ledger.use_history import OwnerHistory
from tests.cli.commands.why_api import Api
from tests.cli.ledger_views import SOME, TASK
from tests.cli.running import run, serve

SEEN = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
USE = ShareUse(40960, 2100, 8000, 7800, 3, SEEN)
SHARES = list(shares_in_use(SOME.nodes[0], PodUses({("team", "a", 0): USE, ("team", "a", None): USE})))
HISTORY = "/api/v1/namespaces/gpu-fraction-injector/configmaps/fraction-injector-use"


def test_each_bound_share_has_a_line_and_promises_have_none():
    assert [" ".join(line.split()) for line in use_lines(SHARES, NOW).splitlines()] == [
        "NODE GPU POD SHARE MIB USED PEAK P95 GPU TIME",
        "gpu-0 0 team/a 4 of 8 2100 of 40960 8000 7800 3 % in the last hour",
        f"gpu-0 1 other/{TASK} 3 of 8 - - - -",
        "not measured: 1 of 2 shares, on 1 node; with agent.podMetrics agents measure every 15 s",
    ]
    assert use_lines([], NOW) == "no pod holds a share of a GPU"


def test_json_has_null_for_what_is_not_measured():
    first, second = map(use_as_json, SHARES)
    place = {"node": "gpu-0", "gpu": "0", "namespace": "team", "pod": "a", "queue": "q-1"}
    size = {"slices": 4, "slicesPerGpu": 8, "claimedMiB": None, "cardMiB": None}
    used = {"memoryMiB": 40960, "usedMiB": 2100, "peakMiB": 8000, "p95MiB": 7800, "busyPercent": 3}
    measured = {**used, "since": SEEN}
    assert first == {**place, **size, **measured}
    assert second.items() >= dict.fromkeys(measured).items()
    assert second.keys() == first.keys()


@pytest.fixture
def history():
    """Ten hours of half a card of 40,960 MiB in slices, and two of it by a claim."""
    kept = OwnerHistory()
    for namespace, queue, size, hours in (
        ("team", "q", GpuSize(8), 10),
        ("z", "", GpuSize(40960, in_mib=True), 2),
    ):
        held = size.amount // 2
        share = UsedShare("gpu-0", "0", namespace, "a", queue, held, size, None)
        use = ShareUse(20480, 0, 6000, 5000, 3, "")
        kept.add(share, use, owner="Job train", uid=namespace, seconds=hours * 3600, now=1767225600)
        kept.end_step(1767225600)
    return kept.text()


@pytest.fixture
def of_cluster(monkeypatch):
    """The command over a ledger without nodes and this history."""

    def ask(history, *arguments):
        found = history if isinstance(history, ApiError) else {"data": {USE_HISTORY_KEY: history}}
        empty = {"items": []}
        serve(monkeypatch, Api({HISTORY: found, GPU_LEDGERS_PATH: empty, GPU_NODES_PATH: empty}))
        return run("ledger", *arguments)

    return ask


def test_gpu_hours_are_summed_by_namespace_and_queue_and_say_since_when(of_cluster, history):
    ended = of_cluster(history, "--use")
    assert [" ".join(line.split()) for line in ended.stdout.splitlines()] == [
        "no pod holds a share of a GPU",
        "",
        "NAMESPACE QUEUE GPU HOURS SINCE",
        f"team q 5.0 {SEEN}",
        f"z - 1.0 {SEEN}",
    ]
    assert json.loads(of_cluster(history, "--use", "-o", "json").stdout) == []
    assert "GPU HOURS" not in of_cluster(history, "--use", "--node", "gpu-*").stdout
    for unread in (ApiError(403, "no"), "{"):
        ended = of_cluster(unread, "--use")
        assert (ended.returncode, ended.stdout) == (0, "no pod holds a share of a GPU\n")
        assert ended.stderr.startswith("Not read: GPU hours, which are in ConfigMap gpu-fraction-injector/")


def test_the_smallest_share_that_would_do_is_suggested_for_each_owner(of_cluster, history):
    ended = of_cluster(history, "--suggest")
    assert (ended.returncode, ended.stderr) == (0, f"{ADVICE}\n")
    assert [" ".join(line.split()) for line in ended.stdout.splitlines()[1:]] == [
        "z - Job train 1 20480 of 40960 MiB 6000 5000 3 % 6000 of 40960 MiB (0.147) 2.0 h",
        "team q Job train 1 4 of 8 6000 5000 3 % 2 of 8 10.0 h",
    ]
    [found] = json.loads(of_cluster(history, "--suggest", "-n", "team", "-o", "json").stdout)
    whose = {"namespace": "team", "queue": "q", "owner": "Job train", "pods": 1}
    size = {"slices": 4, "slicesPerGpu": 8, "claimedMiB": None, "cardMiB": None}
    used = {"peakMiB": 6000, "p95MiB": 5000, "busyPercent": 3, "enoughSlices": 2, "enoughMiB": None}
    times = {"measuredHours": 10.0, "gpuHours": 5.0} | dict.fromkeys(("firstSeen", "lastSeen"), SEEN)
    assert found == {**whose, **size, **used, **times}
    assert of_cluster(history, "--suggest", "-n", "none").stdout.startswith("no pod with a measured share")


@pytest.mark.parametrize("kept", ["{", ApiError(404, "not found")])
def test_a_history_that_cannot_be_read_is_said_in_one_line(of_cluster, kept):
    ended = of_cluster(kept, "--suggest")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "ConfigMap gpu-fraction-injector/fraction-injector-use" in ended.stderr
