from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modes.fraction import ALLOWED_SLICES_PER_GPU, Fraction
from tests.effort import examples


@pytest.mark.parametrize(
    ("text", "slices_per_gpu", "slices"),
    [
        ("0.125", 8, 1),
        ("0.500", 8, 4),
        ("0.5", 2, 1),
        ("0.0625", 16, 1),
        ("1.000", 8, 8),
        ("2", 8, 16),
        ("2.0", 4, 8),
    ],
)
def test_a_plain_decimal_is_so_many_slices(text: str, slices_per_gpu: int, slices: int) -> None:
    assert Fraction.from_text(text, slices_per_gpu) == Fraction(slices, slices_per_gpu)


NO_TEXT = "|0|0.0|nan|inf|1e-1|1_0|00.5|.5|5.|-0.5|+0.5| 0.5|0.5\n|0.9|1.5|\u0660.5|0.0625|0.1250001|1/2|0x1"


@pytest.mark.parametrize("text", NO_TEXT.split("|"))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"slices|decimal|whole GPUs"):
        Fraction.from_text(text, 8)


@pytest.mark.parametrize(("slices", "slices_per_gpu"), [(0, 8), (9, 8), (12, 8), (-1, 8), (1, 3), (1, 32)])
def test_there_is_no_half_of_a_second_gpu_and_no_other_division(slices: int, slices_per_gpu: int) -> None:
    with pytest.raises(ValueError, match=r"slices"):
        Fraction(slices, slices_per_gpu)


@given(
    st.integers(1, 10**6 - 1),
    st.integers(1, 6),
    st.sampled_from(ALLOWED_SLICES_PER_GPU),
    st.integers(1, 200_000),
)
@settings(max_examples=examples(1000))
def test_a_part_that_is_rounded_up_holds_what_was_asked_and_wastes_less_than_one_slice(
    share: int, decimals: int, slices_per_gpu: int, gpu_mib: int
) -> None:
    share %= 10**decimals
    if not share:
        return
    fraction = Fraction.rounded_up(f"0.{share:0{decimals}}", slices_per_gpu)
    granted = fraction.slices * 10**decimals - share * slices_per_gpu
    assert 0 <= granted < 10**decimals
    assert fraction.share_mib(gpu_mib) == gpu_mib * share // 10**decimals
    assert not fraction.is_whole
    assert (fraction.exact is None) == (granted == 0)


def test_an_exact_share_of_several_gpus_is_limited_on_each() -> None:
    shares = Fraction.rounded_up("0.95", 8).on_each_of(2)
    assert (shares.slices, shares.slices_on_each, shares.gpus) == (16, 8, 2)
    assert (shares.is_whole, shares.share_mib(1000)) == (False, 950)


def test_a_share_of_memory_is_rounded_down() -> None:
    assert Fraction(3, 8).share_mib(23028) == 8635
    assert Fraction(16, 8).share_mib(81920) == 81920
    assert (Fraction(16, 8).gpus, Fraction(16, 8).slices_on_each, Fraction(16, 8).is_whole) == (2, 8, True)
