"""The churn bench: what is refused, by rules that are written by hand here."""

import pytest

from bench.packing.arriving import Job, jobs
from bench.packing.churn import BestFit, Fgd, FirstFit, Ours, TwinOfBestFit, _figures, floor, refused


def job(name: str, arrives: float, lasts: float, slices: int) -> Job:
    return Job(name, arrives, lasts, slices)


def test_what_finds_no_room_after_the_warm_up_is_counted_by_its_slices():
    filling = [job(str(i), 0.0, 10.0, 8) for i in range(8)]
    late = [job("a", 1.0, 10.0, 8), job("b", 11.0, 1.0, 8), job("c", 11.5, 1.0, 8)]
    for cluster in (FirstFit(1), BestFit(1), Fgd(1, {8: 1}), Ours(1)):
        assert refused(cluster, [*filling, *late]) == pytest.approx(100 / 9)


def test_rules_differ_in_the_gap_that_they_take():
    first = {}
    for cluster in (FirstFit(1), BestFit(1), Fgd(1, {3: 1, 5: 1})):
        for name, slices in (("x", 2), ("y", 7), ("z", 3)):
            cluster.take(job(name, 0.0, 1.0, slices))
        first[type(cluster).__name__] = cluster.take(job("one", 0.0, 1.0, 1))
    assert first == {"FirstFit": (0, 1), "BestFit": (1, 1), "Fgd": (1, 1)}


def test_the_twin_of_best_fit_differs_in_only_the_gpu():
    stream = jobs(2, 1, 20)
    rules = BestFit(2), TwinOfBestFit(2)
    taken = [[rule.take(one) for one in stream[:60]] for rule in rules]
    assert taken[0] != taken[1]
    left = [sorted(rule._free) for rule in rules]
    assert left[0] == left[1]


def test_a_single_stream_may_be_behind_by_what_chance_alone_makes_of_two_rules_that_are_alike():
    found = {
        "first fit": [2.0, 2.0, 2.0],
        "best fit": [1.0, 1.0, 1.0],
        "FGD": [1.5, 1.5, 1.5],
        "twin": [0.75, 1.0, 1.25],
        "ours": [0.5, 1.0, 1.125],
    }
    _, ahead, worst = _figures("a mix", found)
    assert (ahead.values, str(ahead.bar), ahead.is_met) == ([0.125], ">= 0", True)
    assert (worst.values, str(worst.bar), worst.is_met) == ([-0.125], ">= -0.25", True)
    found["ours"] = [0.0, 1.0, 1.5]
    *_, worst = _figures("a mix", found)
    assert worst.is_met is False


def test_the_floor_is_what_one_pool_of_slices_refuses():
    one_server_each = floor(1, {8: 1})
    offered = 0.95 * 8
    states = [1.0]
    for used in range(1, 9):
        states.append(states[-1] * offered / used)
    assert one_server_each == pytest.approx(100 * states[-1] / sum(states))


def test_streams_repeat_by_seed_and_offer_what_they_say():
    stream = jobs(20, 1, 10)
    assert stream == jobs(20, 1, 10)
    work = sum(one.lasts * one.slices for one in stream) / (20 * 64 * 10)
    assert work == pytest.approx(0.95, rel=0.1)
