"""Run with `python -m bench.documentation`: tables and plots of docs/performance.md, from bench/results.

The page's words are written by hand; what stands between `<!-- bench: NAME -->` and `<!-- end -->` is written
here, from the JSON that the bench of that name left.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.harness import short
from bench.plot import Curves, svg

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "bench" / "results"

_BLOCK = re.compile(r"<!-- bench: (?P<name>[a-z]+) -->\n.*?<!-- end -->", re.DOTALL)
_MET = {None: "", True: "yes", False: "**no**"}


def main() -> None:
    """Write the page and its plots anew."""
    PAGE.write_text(_BLOCK.sub(lambda block: _section(block["name"]), PAGE.read_text()))
    found = _result("webhook")
    title = "Reviews per second by connections, one core"
    _plot("throughput.svg", found["concurrency"], title, "connections that keep one review each in flight")
    curves = {
        percentile: {rate: values[percentile] for rate, values in found["rates"].items()}
        for percentile in ("p50", "p90", "p99")
    }
    _plot("latency.svg", curves, "Latency in ms by rate, open loop", "reviews per second")


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def _plot(name: str, curves: Curves, title: str, across: str) -> None:
    (PAGE.parent / name).write_text(svg(curves, title, across))


def _section(name: str) -> str:
    found = _result(name)
    lines = [f"<!-- bench: {name} -->", _conditions(found), ""]
    lines += ["| figure | value | reference | ratio (range) | bar | met |", "|---|---|---|---|---|---|"]
    lines += [_row(figure) for figure in found["figures"]]
    lines += [f"\n{figure['figure']}: {figure['note']}." for figure in found["figures"] if figure["note"]]
    return "\n".join([*lines, "<!-- end -->"])


def _conditions(found: dict[str, Any]) -> str:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = f"; load by {found['load']}" if "load" in found else ""
    return (
        f"Measured {machine['date']} on {machine['cores']} cores of {machine['processor']}, Python"
        f" {machine['python']}, commit {machine['commit']}, {versions}{load}. Others kept"
        f" {machine['foreign_load']:.2f} cores busy meanwhile."
    )


def _row(figure: dict[str, Any]) -> str:
    reference, ratio = figure["reference"], figure["ratio"]
    beside = f"{reference['name']}: {short(reference['median'])}" if reference else ""
    spread = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})" if ratio else ""
    value = f"{short(figure['value']['median'])} {figure['unit']}"
    bar = figure["bar"] or ""
    return f"| {figure['figure']} | {value} | {beside} | {spread} | {bar} | {_MET[figure['met']]} |"


if __name__ == "__main__":
    main()
