"""What pods use of their shares, summed over their containers, and in words."""

from datetime import UTC, datetime

import pytest

from kube.dra import DRIVER
from ledger.card_view import CardShare, CardView
from ledger.use import (
    GpuSize,
    MeasuredUse,
    PodUses,
    ShareUse,
    by_pod,
    enough,
    memory_text,
    sentence,
    shares_in_use,
    time_text,
)
from ledger.view import NodeView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO, JUST = "2026-01-01T00:00:00Z", "2026-01-01T11:40:30Z"


def use_of(
    gpu: int = 0, busy: int | None = 10, since: str = LONG_AGO, pod: str = "train", idle_since: str = ""
) -> MeasuredUse:
    return MeasuredUse("team", pod, "main", gpu, 1000, 100, 300, 200, since, busy, idle_since)


def test_containers_of_one_gpu_are_summed_and_gpus_averaged():
    uses = by_pod([use_of(), use_of(busy=95, since=JUST), use_of(gpu=1, busy=0)])
    assert uses["team", "train", 0] == ShareUse(2000, 200, 600, 400, 100, JUST)
    assert uses["team", "train", 1] == ShareUse(1000, 100, 300, 200, 0, LONG_AGO)
    assert uses["team", "train", None].busy_percent == 52
    assert uses["team", "train", None].used_mib == 300


def test_a_pod_is_idle_for_as_long_as_all_its_containers_are_by_the_clock_of_its_node():
    uses = [use_of(idle_since=LONG_AGO), use_of(idle_since=JUST), use_of(gpu=1, idle_since=LONG_AGO)]
    found = by_pod(uses, "2026-01-01T11:50:30Z")
    assert [found["team", "train", gpu].idle_seconds for gpu in (0, 1, None)] == [600, 42630, 600]
    busy = by_pod([*uses, use_of(gpu=1)], "2026-01-01T11:50:30Z")
    assert [busy["team", "train", gpu].idle_seconds for gpu in (0, 1, None)] == [600, None, None]


@pytest.mark.parametrize(("idle", "measured"), [(JUST, ""), (JUST, "now"), ("x" * 32, JUST)])
def test_a_time_that_cannot_be_read_makes_nothing_idle(idle, measured):
    assert by_pod([use_of(idle_since=idle)], measured)["team", "train", None].idle_seconds is None


def test_the_last_pod_of_a_report_that_is_cut_is_not_idle():
    uses = [use_of(pod="a", idle_since=JUST), use_of(pod="b", idle_since=JUST)]
    found = by_pod(uses, "2026-01-01T11:50:30Z", is_cut=True)
    assert [found["team", pod, None].idle_seconds for pod in ("a", "b")] == [600, None]


@pytest.mark.parametrize(
    ("since", "period"),
    [
        (LONG_AGO, "in the last hour"),
        (JUST, "in the last 19 min"),
        ("2026-01-01T12:30:00Z", "in the last 1 min"),
        ("0001-01-01T00:00:00+23:59", "in the last 1 min"),
        ("9999-12-31T23:59:59-23:59", "in the last 1 min"),
    ],
)
def test_the_time_says_over_which_period_it_was_measured(since, period):
    assert time_text(ShareUse(1000, 0, 0, 0, 3, since), NOW) == f"3 % {period}"


SHARES = (
    CardShare("team", "c-1", "train", 10240, "nightly"),
    CardShare("team", "c-2", "eval", 8192),
    CardShare("team", "c-3", "", 2048),
)
MIB = {"memory_mib": 81920, "claimed_mib": 20480, "free_mib": 61440, "claims": 3, "shares": SHARES}
CARD = CardView(node="n", driver=DRIVER, device="gpu-0", uuid="GPU-a", model="", taint="", **MIB)
CARDS = NodeView("n", usable=True, slices_per_gpu=0, gpu_mib=None, product=None, gpus=(), cards=(CARD,))


def test_what_pods_use_of_claimed_cards_is_found_by_the_number_that_the_agent_gives_the_card():
    uses = by_pod([use_of(gpu=3), use_of(pod="eval")])
    train, rest = shares_in_use(CARDS, PodUses(uses, {"GPU-a": 3}))
    assert (train.gpu, train.namespace, train.pod, train.queue) == ("gpu-0", "team", "train", "nightly")
    assert (train.size.text(train.held), train.use) == ("10240 of 81920 MiB", uses["team", "train", 3])
    assert (rest.pod, rest.use) == ("eval", None), "what it uses is of another card"


@pytest.mark.parametrize(("peak", "least"), [(0, 1), (300, 300), (99999, 81920)])
def test_of_a_card_that_claims_take_any_part_of_the_peak_itself_is_enough(peak, least):
    assert enough(10240, GpuSize(81920, in_mib=True), ShareUse(10240, 0, peak, peak, 0, JUST)) == least


def test_a_sentence_says_only_what_is_known():
    use = by_pod([use_of()])["team", "train", 0]
    assert memory_text(use) == "100 of 1000 MiB (peak 300)"
    assert sentence(0, use, NOW) == (
        "Of GPU 0 it uses 100 of 1000 MiB (peak 300), and its kernels ran 10 % in the last hour."
    )
    unknown = by_pod([use_of(busy=None)])["team", "train", None]
    assert sentence(None, unknown, NOW) == "Of its GPUs it uses 100 of 1000 MiB (peak 300)."
