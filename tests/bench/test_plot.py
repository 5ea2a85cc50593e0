"""Line plots: well-formed, every value in its place, names that can be read."""

from itertools import pairwise
from xml.etree import ElementTree as ET

from bench.plot import LINE, svg

SVG = "{http://www.w3.org/2000/svg}"
CURVES = {
    "NULL": {"1": 1000.0, "2": 10_000.0, "4": 100_000.0},
    "ours": {"1": 100.0, "2": 99_000.0, "4": 98_000.0},
}


def drawn(curves=None) -> ET.Element:
    return ET.fromstring(svg(curves or CURVES, "Reviews", "connections"))  # noqa: S314 - made above


def names_of(plot: ET.Element) -> dict[str | None, float]:
    texts = [text for text in plot.iter(f"{SVG}text") if text.get("text-anchor") == "start"]
    return {text.text: float(text.get("y", "")) for text in texts}


def test_every_value_is_a_point_of_its_curve():
    lines = [line.get("points", "").split() for line in drawn().iter(f"{SVG}polyline")]
    assert lines == [["60.0,233.3", "320.0,146.7", "580.0,60.0"], ["60.0,320.0", "320.0,60.4", "580.0,60.8"]]
    assert len(list(drawn().iter(f"{SVG}circle"))) == 6


def test_steps_powers_of_ten_and_titles_are_written():
    texts = {text.text for text in drawn().iter(f"{SVG}text")}
    powers = {"100", "1,000", "10,000", "100,000"}
    assert texts == {"Reviews", "connections", "1", "2", "4", "NULL", "ours"} | powers


def test_names_of_curves_that_end_close_together_do_not_overlap():
    heights = sorted(names_of(drawn()).values())
    assert all(lower - upper >= LINE for upper, lower in pairwise(heights))


def test_names_stand_in_the_order_of_the_curves_ends():
    names = names_of(drawn())
    assert names["NULL"] < names["ours"]


def test_one_value_alone_can_be_drawn():
    assert len(list(drawn({"ours": {"1": 1000.0}}).iter(f"{SVG}circle"))) == 1
