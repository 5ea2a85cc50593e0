"""Kubernetes quantities ("500m", "1Gi", "1E3"), read exactly: integers and fractions, never a float."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

LARGEST = 2**63 - 1
"""Kubernetes stores a quantity in 64 bits, so a larger one is invalid."""

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<decimals>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate(["", "k", "M", "G", "T", "P", "E"])},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_MAX_TEXT = 64
_MAX_EXPONENT = 40
"""Beyond it, a value is either not representable or zero; 10**999999999 would take all memory."""


def parse_quantity(quantity: str | int) -> Fraction:
    """Read a quantity exactly, as `resource.ParseQuantity` of Kubernetes' apimachinery defines the grammar.

    Raises:
        ValueError: it is not a quantity, or beyond 64 bits.
    """
    if isinstance(quantity, str):
        return _parse_text(quantity)
    return _in_range(Fraction(int(quantity)), str(quantity)[:_MAX_TEXT])


def whole(quantity: str | int) -> int:
    """Read the amount of an extended resource.

    Raises:
        ValueError: it is not a quantity, negative or not a whole number.
    """
    value = parse_quantity(quantity)
    if value.denominator != 1 or value < 0:
        raise ValueError(f'quantity "{quantity}" is not a whole number from 0 up')
    return value.numerator


@lru_cache(maxsize=4096)
def milli(quantity: str | int) -> int:
    """Thousandths, rounded up as Kubernetes does: "0.1" and "100m" of CPU are 100 milli-CPU.

    Raises:
        ValueError: it is not a quantity.
    """
    return ceil(parse_quantity(quantity) * 1000)


def rounded_up(quantity: str | int) -> int:
    """Units, rounded up as Kubernetes does: "1Ki" of memory is 1024 bytes, "1500m" are 2.

    Raises:
        ValueError: it is not a quantity.
    """
    return -(-milli(quantity) // 1000)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Fraction:
    # Check the length first: everything else takes time proportional to it, and a text may have megabytes.
    if len(text) < len(str(LARGEST)) and text.isascii() and text.isdigit():
        return Fraction(int(text))
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None or not (match["whole"] or match["decimals"]):
        shown = text[:_MAX_TEXT]
        raise ValueError(f'"{shown}" is not a Kubernetes quantity such as "500m", "2" or "1Gi"')
    return _in_range(_value(match), text)


def _value(match: re.Match[str]) -> Fraction:
    decimals = match["decimals"] or ""
    number = Fraction(int(match["whole"] + decimals or "0"), 10 ** len(decimals))
    exponent = int(match["exponent"] or "0")
    if abs(exponent) > _MAX_EXPONENT and number:
        raise ValueError(f'quantity "{match[0]}" is out of range: its exponent is beyond {_MAX_EXPONENT}')
    scale = _SUFFIXES[match["suffix"] or ""] * Fraction(10) ** exponent if number else Fraction(0)
    return -number * scale if match["sign"] == "-" else number * scale


def _in_range(value: Fraction, text: str) -> Fraction:
    if abs(value) > LARGEST:
        raise ValueError(f'quantity "{text}" is out of range: Kubernetes holds at most {LARGEST}')
    return value
