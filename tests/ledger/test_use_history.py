"""What is kept of owners' use, and what bounds it."""

import msgspec
import pytest

from ledger.use import GpuSize, ShareUse, UsedShare
from ledger.use_history import KEPT_SECONDS, MAX_OWNERS, MAX_PODS, OwnerHistory, workload_text

EIGHTHS, CARD = GpuSize(8), GpuSize(40960, in_mib=True)


def add(  # noqa: PLR0913 each is what is known of a share
    history, pod="a", peak=5000, *, namespace="team", owner="Job x", uid=None, now=100, busy=5, size=EIGHTHS
):
    use = ShareUse(20480, 0, peak, peak, busy, "")
    share = UsedShare("n", "0", namespace, pod, "q", 20480 if size.in_mib else 4, size, use)
    history.add(share, use, owner=owner, uid=uid or f"{pod:>08}", seconds=30, now=now)


def test_pods_are_counted_once_and_their_time_is_summed_though_the_leader_changes():
    history = OwnerHistory()
    for now in (100, 130):
        add(history, "a", now=now)
        add(history, "b", 10241, now=now)
        history.end_step(now)
    history = OwnerHistory(history.text())
    add(history, "b", 6000, now=160)
    add(history, "c", 6000, busy=None, now=160)
    [found] = history.owners.values()
    assert (found.pods, found.seconds, found.peak_mib, found.enough) == (3, 180, 10241, 3)
    assert (found.held, found.busy_percent, found.last_seen) == (4, 5, 160)
    assert (found.held_seconds, found.first_seen) == (4 * 180, 100)


def test_parts_of_cards_are_kept_apart_from_slices_and_counted_in_mib():
    history = OwnerHistory()
    add(history, "a", 5000)
    add(history, "b", 5000, size=CARD)
    slices, claims = OwnerHistory(history.text()).owners.values()
    assert (slices.size, slices.held, slices.enough) == (EIGHTHS, 4, 1)
    assert (claims.size, claims.held, claims.enough) == (CARD, 20480, 5000)


def test_the_namespace_with_most_owners_loses_the_oldest():
    history = OwnerHistory()
    add(history, namespace="small", now=1)
    for number in range(MAX_OWNERS + 9):
        add(history, owner=f"Job {number}", now=2 + number)
    names = {key[2] for key in history.owners if key[0] == "team"}
    assert len(history.owners) == MAX_OWNERS
    assert ("small", "q", "Job x", EIGHTHS) in history.owners
    assert "Job 0" not in names
    assert f"Job {MAX_OWNERS + 8}" in names


@pytest.mark.parametrize("character", ['"', "\u4e00"])
def test_the_bytes_of_the_text_are_bounded_and_old_owners_are_forgotten(character):
    history, owner, now = OwnerHistory(), workload_text(character * 300, "0"), 10**10
    for number in range(MAX_OWNERS):
        add(history, owner=workload_text(character * 300, f"{number}"), namespace=f"{number:>063}", now=now)
    for number in range(MAX_PODS + 1):
        add(history, uid=f"{number:08x}", namespace=f"{0:>063}", owner=owner, now=now)
    history.end_step(now)
    assert len(history.text().encode()) < 500_000
    history.end_step(now + KEPT_SECONDS)
    assert not history.owners


@pytest.mark.parametrize("text", ["[]", "{", '{"owners": [{"namespace": 1}]}'])
def test_a_text_of_others_is_refused(text):
    with pytest.raises(msgspec.MsgspecError):
        OwnerHistory(text)


def test_replicasets_and_jobs_count_for_what_creates_them():
    assert workload_text("ReplicaSet", "web-5d4f8c7b9d") == "Deployment web"
    assert workload_text("Job", "nightly-29049120") == "CronJob nightly"
    assert workload_text("Job", "train-1") == "Job train-1"
    assert workload_text("StatefulSet", "web-5d4f8c7b9d") == "StatefulSet web-5d4f8c7b9d"
