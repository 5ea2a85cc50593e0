from __future__ import annotations

from fractions import Fraction

import pytest

from kube.quantity import LARGEST, milli, parse_quantity, rounded_up, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("8", 8),
        ("007", 7),
        ("500m", Fraction(1, 2)),
        ("100u", Fraction(1, 10_000)),
        ("3n", Fraction(3, 10**9)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1Gi", 2**30),
        ("1.5Gi", 3 * 2**29),
        ("2E", 2 * 10**18),
        ("1E3", 1000),
        ("1e3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("1E+3", 1000),
        ("+1", 1),
        ("-1", -1),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        (str(LARGEST), LARGEST),
        (7, 7),
    ],
)
def test_a_quantity_is_read_exactly(text: str | int, value: int | Fraction) -> None:
    assert parse_quantity(text) == value


NO_QUANTITY = (
    "|.|+|-|m|Gi|NaN|Infinity|inf|1_000|1 | 1|1\n|1.1.M|1+1.0M|0.1mi|0.1am|aoeu|.5i|1i|-3.01i|-3.01e-|1K|1ki"
)
NO_NUMBER = "0x10|1e1.5|1e400|1e-400|1e999999999|10E|\u0663|\uff11"


@pytest.mark.parametrize("text", [*NO_QUANTITY.split("|"), *NO_NUMBER.split("|"), "1" * 65, str(LARGEST + 1)])
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


def test_milli_and_units_round_up_as_kubernetes_does() -> None:
    assert milli("0.1") == 100
    assert milli("100u") == 1
    assert milli(2) == 2000
    assert rounded_up("1500m") == 2
    assert rounded_up("-1500m") == -1


@pytest.mark.parametrize("text", ["500m", "1.5", "-1", "1e-1"])
def test_an_extended_resource_has_whole_amounts_from_zero_up(text: str) -> None:
    with pytest.raises(ValueError, match=f'quantity "{text}" is not a whole number'):
        whole(text)


def test_an_amount_may_be_whole_in_other_words() -> None:
    assert (whole("2000m"), whole("1k"), whole("4.0"), whole(8)) == (2, 1000, 4, 8)
