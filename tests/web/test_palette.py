"""The page's colours: told apart by colour-blind readers, and from what is free, as WCAG asks of graphics."""

import re
from itertools import combinations

import pytest

from web.page import FILES

CONTRAST = 3
"""Of graphics (WCAG 2.2, 1.4.11)."""
DISTANCE = 0.1
"""In OKLab, where 0.02 can just be seen."""
AS_SEEN = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Linear RGB as colour-blind people see it (Machado, Oliveira and Fernandes, 2009)."""
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#\w{6})", part))
    for part in (FILES / "page.css").read_text().split("@media", 2)[:2]
)


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    light = sorted(
        sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True))
        for each in (one, other)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def oklab(rgb):
    to_cones = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    to_lab = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    return times(
        to_lab, [cone ** (1 / 3) for cone in times(to_cones, [min(1, max(0, part)) for part in rgb])]
    )


@pytest.mark.parametrize("seen", AS_SEEN.values(), ids=AS_SEEN)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_any_two_colours_can_be_told_apart(scheme, seen):
    colours = [scheme[f"c{number}"] for number in range(6)]
    for one, other in combinations(colours, 2):
        a, b = (oklab(times(seen, linear(each))) for each in (one, other))
        assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 >= DISTANCE, (one, other)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_held_stands_out_from_what_is_free(scheme):
    for name in (*(f"c{number}" for number in range(6)), "rest-of-keys"):
        assert contrast(scheme[name], scheme["free"]) >= CONTRAST, name
