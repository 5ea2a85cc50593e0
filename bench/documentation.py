"""Run with `python -m bench.documentation`: tables and plots of docs/performance.md, from bench/results.

The page's words are written by hand. What stands between `<!-- bench: NAME -->` and `<!-- end -->` is written
here, from the JSON that the bench of that name left; NAME `bars` stands for every figure that has a bar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import COLUMNS, cells
from bench.plot import Curves, svg

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(r"<!-- bench: (?P<name>[a-z-]+) -->\n.*?<!-- end -->", re.DOTALL)
_BARS = "bars"
_EXTRA = {"load": "load by", "kubernetes": "Kubernetes", "trace": "trace"}
_SERIES = {"containers": "containers in a pod", "kilobytes": "kB of a body"}

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Documentation:
    """A page beside its plots, and the folder of results that both show."""

    page: Path
    results: Path

    def write(self) -> None:
        """Write the page and its plots anew.

        Raises:
            FileNotFoundError: a bench that the page names has left no result.
        """
        self.page.write_text(self.text())
        for name, drawing in self.plots().items():
            (self.page.parent / name).write_text(drawing)

    def text(self) -> str:
        """The page with its blocks made anew."""
        text = self.page.read_text()
        names = [name for name in _BLOCK.findall(text) if name != _BARS]
        found = {name: self._result(name) for name in names}

        def block(match: re.Match[str]) -> str:
            name = match["name"]
            lines = _all_bars(found) if name == _BARS else _section(found[name])
            return "\n".join([f"<!-- bench: {name} -->", *lines, "<!-- end -->"])

        return _BLOCK.sub(block, text)

    def plots(self) -> dict[str, str]:
        """SVGs by file name: throughput against concurrency, latency against rate."""
        found = self._result("webhook")
        by_rate = found["rates"]
        latencies = {
            name: {rate: values[name] for rate, values in by_rate.items()}
            for name in next(iter(by_rate.values()))
        }
        throughput: Curves = found["concurrency"]
        return {
            "throughput.svg": svg(
                throughput,
                "Reviews per second by connections, one core",
                "connections that keep one review each in flight",
            ),
            "latency.svg": svg(latencies, "Latency in ms by rate, open loop", "reviews per second"),
        }

    def _result(self, name: str) -> Result:
        result: Result = json.loads((self.results / f"{name}.json").read_text())
        return result


def _section(found: Result) -> Iterator[str]:
    """Conditions, table, notes and series of one bench."""
    yield _conditions(found)
    yield ""
    yield from _table(COLUMNS, map(cells, found["figures"]))
    for figure in found["figures"]:
        if figure["note"]:
            yield f"\n{figure['figure']}: {figure['note']}."
    for key, title in _SERIES.items():
        if key in found:
            yield ""
            yield from _table([title, *found[key]], [["us CPU", *map(str, found[key].values())]])


def _all_bars(found: Mapping[str, Result]) -> Iterator[str]:
    """One table of every figure that has a bar, missed ones too."""
    rows = []
    for name, result in found.items():
        for figure in result["figures"]:
            if figure["bar"]:
                what, value, _, ratio, bar, met, _ = cells(figure)
                rows.append([name, what, ratio or value, bar, met])
    return _table(["bench", "figure", "ratio or value (range)", "bar", "met"], rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join('**no**' if cell == 'NO' else cell for cell in row)} |"


def _conditions(found: Result) -> str:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    extra = "".join(f"; {word} {found[key]}" for key, word in _EXTRA.items() if key in found)
    return (
        f"Measured {machine['date']} on {machine['cores']} cores of {machine['processor']}, Python"
        f" {machine['python']}, commit {machine['commit']}, {versions}{extra}. Others kept"
        f" {machine['foreign_load']:.2f} cores busy meanwhile."
    )


if __name__ == "__main__":
    Documentation(ROOT / "docs" / "performance.md", ROOT / "bench" / "results").write()
