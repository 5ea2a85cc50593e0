"""How much CPU pods ask for with a slice: learnt at several levels, and bounded."""

from __future__ import annotations

from ledger.placement.cpu_history import LEVELS, PER_SLICE, CpuHistory


def test_each_level_is_what_so_many_slices_need_at_most() -> None:
    history = CpuHistory()
    for cpu in range(1, 101):
        history.learn(10, 10 * cpu)
    needed = [PER_SLICE / price for price in history.prices()]
    for level, cpu in zip(LEVELS, needed, strict=True):
        assert 0.88 * 10 * level <= cpu <= 1.13 * 10 * level


def test_slices_without_cpu_have_a_price_all_the_same() -> None:
    history = CpuHistory()
    history.learn(8, 0)
    assert history.prices() == (8 * PER_SLICE,) * len(LEVELS)


def test_what_is_kept_is_bounded_whatever_pods_ask_for() -> None:
    history = CpuHistory()
    for cpu in range(32_000):
        history.learn(1, cpu)
    assert len(history._slices) < 128
    for _ in range(20):
        history.halve()
    assert not history._slices
